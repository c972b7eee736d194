package encode

import (
	"fmt"
	"testing"
)

// What the cache says of a name is what was put last or nothing, whatever else it holds.
func TestRecent(t *testing.T) {
	var r recent
	key := func(i int) (namespace, name, uid []byte) {
		return []byte("shop"), fmt.Append(nil, "pod-", i), fmt.Append(nil, "uid-", i)
	}
	if namespace, name, uid := key(0); r.look(namespace, name, uid) != UIDUnknown {
		t.Error("an empty cache knows an object")
	}
	const n = 3 * mostRecent
	for i := range n {
		namespace, name, uid := key(i)
		r.put(namespace, name, uid)
		if r.look(namespace, name, uid) != UIDSame || r.look(namespace, name, []byte("another")) != UIDOther {
			t.Fatalf("object %d is not known as it was put", i)
		}
	}
	if len(r.slots) != mostRecent {
		t.Errorf("%d slots", len(r.slots))
	}
	known := 0
	for i := range n {
		namespace, name, uid := key(i)
		switch r.look(namespace, name, uid) {
		case UIDSame:
			known++
		case UIDOther:
			t.Fatalf("object %d is known by another uid", i)
		case UIDUnknown:
		}
		r.remove(namespace, name)
		if r.look(namespace, name, uid) != UIDUnknown {
			t.Fatalf("object %d is known after it was removed", i)
		}
	}
	if known < mostRecent/2 || r.count != 0 {
		t.Errorf("%d of %d objects were known, %d slots are taken in the end", known, n, r.count)
	}
}
