package previous

import (
	"fmt"
	"testing"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

// rig is a Store on a checkpoint, with batches that are committed when they are told to.
type rig struct {
	*Store
	t         *testing.T
	at        *checkpoint.Store
	render    *object.Renderer
	object    object.Object
	submitted checkpoint.Changes
	batch     uint64 // that is being filled
	committed uint64
}

func newRig(t *testing.T, at *checkpoint.Store, c Config) *rig {
	t.Helper()
	c.Stream = "pods"
	r := &rig{t: t, at: at, render: newRenderer(t), batch: 1}
	var err error
	if r.Store, err = New(c, at, func() uint64 { return r.committed }, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) load() (behind, stale bool) {
	r.t.Helper()
	behind, stale, err := r.Load()
	if err != nil {
		r.t.Fatal(err)
	}
	return behind, stale
}

// see takes a version of an object, and returns the list of changes and whether it is
// the same as the one before.
func (r *rig) see(name, data, note string) (list string, same bool) {
	r.t.Helper()
	return r.take(name, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"ns"},"data":%q,"note":%q}`, name, data, note))
}

// take is see for an object of any kind.
func (r *rig) take(name, raw string) (list string, same bool) {
	r.t.Helper()
	if err := r.render.Scan([]byte(raw), &r.object); err != nil {
		r.t.Fatal(err)
	}
	before, err := r.Get([]byte("ns"), []byte(name))
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := r.Compare(before, &r.object)
	if err != nil || c.Same {
		return "", c.Same
	}
	changed, _ := c.Changes(nil)
	list = string(changed)
	r.Put(&r.submitted, r.batch, []byte("ns"), []byte(name), c.Value(false))
	return list, false
}

func (r *rig) commit() {
	r.t.Helper()
	b := checkpoint.NewBatch()
	b.Add("pods", &r.submitted)
	if err := r.at.Commit(b); err != nil {
		r.t.Fatal(err)
	}
	r.submitted.Reset()
	r.committed = r.batch
	r.batch++
}

func (r *rig) want(name, data, note, list string, same bool) {
	r.t.Helper()
	if l, s := r.see(name, data, note); l != list || s != same {
		r.t.Errorf("changes %q, same %v, want %q, %v", l, s, list, same)
	}
}

func replaced(from, to string) string {
	return fmt.Sprintf(`[{"op":"replace","path":"/data","old":%q,"value":%q}]`, from, to)
}

// What is compared with is the version before, committed or not, in this process or the
// next, before there is a base and after.
func TestStore(t *testing.T) {
	at, err := checkpoint.OpenTemp()
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	both := Config{Changes: true, IgnoreFields: []string{"note"}}
	r := newRig(t, at, both)
	if behind, stale := r.load(); !behind || !stale {
		t.Error("an empty store is up to date")
	}
	r.want("a", "1", "x", "", false)
	r.want("a", "2", "x", replaced("1", "2"), false)
	r.want("a", "2", "y", "", true)
	for i := range 2 * baseObjects {
		r.want(fmt.Sprint("o", i), "1", "x", "", false)
	}
	r.commit()
	r.want("a", "3", "x", replaced("2", "3"), false)
	r.Remove(&r.submitted, r.batch, []byte("ns"), []byte("o1"))
	r.want("o1", "2", "x", "", false)
	r.Complete(&r.submitted, r.batch)
	r.commit()

	r.want("a", "lost", "x", replaced("3", "lost"), false)
	r.submitted.Reset() // a crash
	r = newRig(t, at, both)
	if behind, stale := r.load(); behind || stale {
		t.Errorf("behind %v, stale %v", behind, stale)
	}
	r.want("a", "3", "z", "", true)
	r.want("o20", "2", "x", replaced("1", "2"), false)
	r.want("o2", "2", "x", replaced("1", "2"), false)
	r.submitted.Reset()
	r.Reset() // the batch was not taken
	r.want("o2", "3", "x", replaced("1", "3"), false)
	r.commit()

	// Another namespace is excluded: there may be objects of which nothing is stored.
	other := both
	other.ExcludeNamespaces = []string{"kube-*"}
	r = newRig(t, at, other)
	if behind, stale := r.load(); !behind || !stale {
		t.Errorf("behind %v, stale %v", behind, stale)
	}
	r.want("a", "4", "x", replaced("3", "4"), false)
	r.commit()

	// Other fields are ignored: the digests are worth nothing.
	other.IgnoreFields = []string{"data"}
	r = newRig(t, at, other)
	if behind, stale := r.load(); !behind || !stale {
		t.Errorf("behind %v, stale %v", behind, stale)
	}
	r.want("a", "4", "x", "", false)
	r.want("a", "5", "x", "", true)
}

// Only what is committed leaves the memory, and the base is committed as soon as it is learned.
func TestStoreUncommitted(t *testing.T) {
	at, err := checkpoint.OpenTemp()
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	r := newRig(t, at, Config{Changes: true})
	r.load()
	r.want("a", "1", "x", "", false)
	r.batch++
	r.want("a", "2", "x", replaced("1", "2"), false)
	r.committed = 1
	r.want("a", "3", "x", replaced("2", "3"), false)
	for i := range baseObjects {
		r.want(fmt.Sprint("o", i), "1", "x", "", false)
	}
	r.commit()
	r.want("a", "3", "x", "", false)
	if len(r.uncommitted) != 1 || len(r.order) != 1 {
		t.Errorf("%d values, %d arrivals are not committed", len(r.uncommitted), len(r.order))
	}
	if header, _, err := at.KeptHeader("pods"); err != nil || len(header) <= headerSize {
		t.Errorf("a header of %d bytes, %v", len(header), err)
	}
}

// Digests of another process are worth nothing where something is redacted.
func TestStoreMissing(t *testing.T) {
	for _, secret := range []bool{false, true} {
		at, err := checkpoint.OpenTemp()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { at.Close() })
		c := Config{IgnoreFields: []string{"note"}, Shape: object.Shape{Secret: secret}}
		r := newRig(t, at, c)
		r.load()
		r.want("a", "1", "x", "", false)
		r.commit()
		for _, restarted := range []bool{false, true} {
			if restarted {
				r = newRig(t, at, c)
				r.load()
			}
			before, err := r.Get([]byte("ns"), []byte("a"))
			if err != nil {
				t.Fatal(err)
			}
			if err := r.render.Scan([]byte(`{"metadata":{"name":"a","namespace":"ns"},"data":"1","note":"x"}`), &r.object); err != nil {
				t.Fatal(err)
			}
			value, err := r.Missing(before, &r.object, false)
			if err != nil || (value != nil) != (secret && restarted) {
				t.Errorf("secret %v, restarted %v: %q, %v", secret, restarted, value, err)
			}
		}
	}
}

// A line is replayed only where it has all that is stored of its object.
func TestReplay(t *testing.T) {
	at, err := checkpoint.OpenTemp()
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	r := newRig(t, at, Config{Changes: true})
	r.load()
	object := []byte(`{"metadata":{"name":"a","namespace":"ns"}}`)
	for _, c := range []struct {
		header []byte
		line   line.Header
		stored bool
	}{
		{[]byte{linesHaveAll}, line.Header{Type: line.Added, Object: object}, true},
		{[]byte{linesHaveAll}, line.Header{Type: line.Modified, Object: object}, true},
		{[]byte{linesHaveAll}, line.Header{Type: line.Modified, Object: object, Truncated: true}, false},
		{[]byte{linesHaveAll}, line.Header{Type: line.Modified}, false},
		{[]byte{linesHaveAll}, line.Header{Type: line.Deleted, Object: object}, false},
		{[]byte{storesObjects}, line.Header{Type: line.Modified, Object: object}, false},
		{nil, line.Header{Type: line.Modified, Object: object}, false},
	} {
		Replay([]byte{linesHaveAll}, &line.Header{Type: line.Added, Namespace: "ns", Name: "a", Object: object}, &r.submitted)
		r.commit()
		c.line.Namespace, c.line.Name = "ns", "a"
		Replay(c.header, &c.line, &r.submitted)
		r.commit()
		if v, err := r.Get([]byte("ns"), []byte("a")); err != nil || string(v.Object) != string(object) && c.stored || v.Object != nil && !c.stored {
			t.Errorf("%q, %s, truncated %v: %q, %v", c.header, c.line.Type, c.line.Truncated, v.Object, err)
		}
	}
}

// The Mark of a version is stored with it, if that is sure to be the one before the next, and not made out of lines that
// are read back.
func TestStoreMarks(t *testing.T) {
	at, err := checkpoint.OpenTemp()
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	mark := func(r *rig) object.Mark {
		t.Helper()
		v, err := r.Get([]byte("ns"), []byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		return v.Mark
	}
	sure := Config{Changes: true, EveryVersion: true}
	r := newRig(t, at, sure)
	r.load()
	r.want("a", "1", "x", "", false)
	if mark(r) != r.object.Mark(0) || mark(r) == 0 {
		t.Errorf("mark %d, want %d", mark(r), r.object.Mark(0))
	}
	r.commit()
	r = newRig(t, at, sure)
	r.load()
	if mark(r) == 0 {
		t.Error("no mark after a restart")
	}
	for _, c := range []Config{{Changes: true}, {Changes: true, EveryVersion: true, IgnoreFields: []string{"note"}}} {
		if o := newRig(t, at, c); o.Marks() || mark(o) != 0 {
			t.Errorf("%+v: mark %d", c, mark(o))
		}
	}
	h, _, err := at.KeptHeader("pods")
	if err != nil {
		t.Fatal(err)
	}
	Replay(h, &line.Header{Type: line.Modified, Namespace: "ns", Name: "a", Object: []byte(`{"metadata":{"name":"a"}}`)}, &r.submitted)
	r.commit()
	if v, err := r.Get([]byte("ns"), []byte("a")); err != nil || v.Mark != 0 || v.Object == nil {
		t.Errorf("mark %d of a line, object %s, %v", v.Mark, v.Object, err)
	}
}

// A Mark counts as long as the settings are the same: where they were others, a version may have passed that none was
// stored of.
func TestStoreMarksOfOtherSettings(t *testing.T) {
	at, err := checkpoint.OpenTemp()
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	sure := Config{Changes: true, EveryVersion: true, APIVersion: "v1"}
	start := func(c Config) (r *rig, known bool) {
		t.Helper()
		r = newRig(t, at, c)
		if _, stale := r.load(); stale {
			r.PutHeader(&r.submitted, r.batch)
			r.commit()
		}
		v, err := r.Get([]byte("ns"), []byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		return r, v.Mark != 0
	}
	excluding, filtering, later := sure, sure, sure
	excluding.ExcludeNamespaces, filtering.EveryVersion, later.APIVersion = []string{"ns"}, false, "v2"
	for n, c := range []Config{excluding, filtering, later, sure} {
		r, _ := start(sure)
		r.take("a", fmt.Sprintf(`{"metadata":{"name":"a","namespace":"ns","resourceVersion":"%d"}}`, n))
		r.commit()
		if _, known := start(sure); !known {
			t.Errorf("%d: no mark after a restart", n)
		}
		start(c)
		if _, known := start(sure); known != (n == 3) {
			t.Errorf("%d: behind %+v a mark is known: %v", n, c, known)
		}
	}
	for n := range lastSeries + 2 {
		start(excluding)
		if _, known := start(sure); known {
			t.Fatalf("a mark is known when the settings have changed %d times", 2*n+2)
		}
	}
}

var (
	podSource = object.Source{Stream: "pods", Cluster: "prod-eu1", Version: "v1", Resource: "pods", Kind: "Pod"}
	podShape  = object.Shape{Drop: []string{"metadata.managedFields"}}
)

func mustRenderer(tb testing.TB, src object.Source, shape object.Shape) *object.Renderer {
	tb.Helper()
	r, err := object.NewRenderer(src, shape)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}
