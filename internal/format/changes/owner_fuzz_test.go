package changes

import "testing"

// Whatever the objects and sets are, an owner is one of the sets, and none where nothing differs.
func FuzzOwner(f *testing.F) {
	f.Add([]byte(`{"spec":{"replicas":1,"a":[1,{"name":"x"}]}}`), []byte(`{"spec":{"replicas":2,"a":[{"name":"x","b":null},1]}}`),
		[]byte(`{"f:spec":{"f:replicas":{},"f:a":{"k:{\"name\":\"x\"}":{".":{}}}}}`), []byte(`{"f:spec":{"f:a":{"v:1":{}}}}`))
	f.Add([]byte(`{"\u0061":{}}`), []byte(`{"a":[]}`), []byte(`{"f:\u0061":{"v:":{},"k:{}":{}}}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, prev, next, a, b []byte) {
		if got := ownerOf(prev, next, [][]byte{a, b}); got < -1 || got > 1 || got >= 0 && len([][]byte{a, b}[got]) == 0 {
			t.Errorf("%d", got)
		}
		if got := ownerOf(prev, prev, [][]byte{a, b}); got != -1 {
			t.Errorf("nothing differs, and yet %d", got)
		}
	})
}
