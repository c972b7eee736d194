package listdiff

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

// shown is one object of a list, as an event.
type shown struct {
	typ           line.Type
	name, uid, rv string
}

func add(name, uid, rv string) shown    { return shown{line.Added, name, uid, rv} }
func modify(name, uid, rv string) shown { return shown{line.Modified, name, uid, rv} }
func drop(name, uid, rv string) shown   { return shown{line.Deleted, name, uid, rv} }

// book is what a reader knows, by name.
type book map[string]object.Known

func (b book) lookup(namespace, name string) (object.Known, bool, error) {
	k, ok := b[name]
	k.Namespace = namespace
	return k, ok, nil
}

func know(objects ...shown) book {
	b := make(book)
	for _, o := range objects {
		b[o.name] = object.Known{Name: o.name, UID: o.uid, ResourceVersion: o.rv}
	}
	return b
}

func newDiff(b book) Diff { return Diff{Known: b.lookup} }

func TestDiff(t *testing.T) {
	old := know(add("a", "u1", "5"), add("b", "u2", "6"))
	for name, c := range map[string]struct {
		known book
		list  []shown
		want  []string // told of the list, in order
		gone  []string // known, and not in the list
	}{
		"empty list":               {old, nil, nil, []string{"a", "b"}},
		"nothing known":            {know(), []shown{add("a", "u1", "5")}, []string{"ADDED a/u1/5"}, nil},
		"unchanged":                {old, []shown{add("a", "u1", "5"), add("b", "u2", "6")}, nil, nil},
		"modified":                 {old, []shown{add("a", "u1", "9"), add("b", "u2", "6")}, []string{"MODIFIED a/u1/9"}, nil},
		"version goes back":        {old, []shown{add("a", "u1", "2"), add("b", "u2", "6")}, []string{"MODIFIED a/u1/2"}, nil},
		"added":                    {old, []shown{add("a", "u1", "5"), add("b", "u2", "6"), add("c", "u3", "9")}, []string{"ADDED c/u3/9"}, nil},
		"recreated":                {old, []shown{add("a", "u9", "9"), add("b", "u2", "6")}, []string{"gone a/u1/5", "ADDED a/u9/9"}, nil},
		"recreated, same version":  {old, []shown{add("a", "u9", "5"), add("b", "u2", "6")}, []string{"gone a/u1/5", "ADDED a/u9/5"}, nil},
		"recreated twice":          {old, []shown{add("a", "u8", "7"), add("b", "u2", "6"), drop("a", "u8", "8"), add("a", "u9", "9")}, []string{"gone a/u1/5", "ADDED a/u8/7", "DELETED a/u8/8", "ADDED a/u9/9"}, nil},
		"name taken, then deleted": {old, []shown{add("a", "u9", "9"), add("b", "u2", "6"), drop("a", "u1", "8")}, []string{"gone a/u1/5", "ADDED a/u9/9"}, nil},
		"shown twice":              {old, []shown{add("a", "u1", "9"), add("a", "u1", "9"), add("b", "u2", "6"), add("b", "u2", "6")}, []string{"MODIFIED a/u1/9"}, nil},
		"new shown twice":          {know(), []shown{add("a", "u1", "9"), add("a", "u1", "9")}, []string{"ADDED a/u1/9"}, nil},
		"older copy later":         {know(), []shown{add("a", "u1", "9"), add("a", "u1", "7")}, []string{"ADDED a/u1/9"}, nil},
		"changes before the end":   {old, []shown{add("a", "u1", "5"), add("b", "u2", "6"), modify("a", "u1", "9")}, []string{"MODIFIED a/u1/9"}, nil},
		"new one changes":          {know(), []shown{add("a", "u1", "5"), modify("a", "u1", "9")}, []string{"ADDED a/u1/5", "MODIFIED a/u1/9"}, nil},
		"deleted before the end":   {old, []shown{add("a", "u1", "5"), add("b", "u2", "6"), drop("a", "u1", "9")}, []string{"DELETED a/u1/9"}, nil},
		"deleted twice":            {old, []shown{add("b", "u2", "6"), drop("a", "u1", "9"), drop("a", "u1", "9")}, []string{"DELETED a/u1/9"}, nil},
		"came and went":            {old, []shown{add("a", "u1", "5"), add("b", "u2", "6"), drop("c", "u3", "9")}, nil, nil},
		"shown, then went":         {know(), []shown{add("c", "u3", "8"), drop("c", "u3", "9")}, []string{"ADDED c/u3/8", "DELETED c/u3/9"}, nil},
		"deleted and made again":   {old, []shown{add("a", "u1", "5"), add("b", "u2", "6"), drop("a", "u1", "8"), add("a", "u9", "9")}, []string{"DELETED a/u1/8", "ADDED a/u9/9"}, nil},
		"recreated, then deleted":  {old, []shown{add("a", "u9", "8"), add("b", "u2", "6"), drop("a", "u9", "9")}, []string{"gone a/u1/5", "ADDED a/u9/8", "DELETED a/u9/9"}, nil},
		"left and came (selector)": {old, []shown{add("a", "u1", "5"), add("b", "u2", "6"), drop("a", "u1", "8"), add("a", "u1", "9")}, []string{"DELETED a/u1/8", "ADDED a/u1/9"}, nil},
		"versions are no numbers":  {know(add("a", "u1", "x")), []shown{add("a", "u1", "x"), modify("a", "u1", "y"), modify("a", "u1", "y")}, []string{"MODIFIED a/u1/y"}, nil},
		"two with one uid":         {know(add("a", "u", "5")), []shown{add("a", "u", "5"), add("b", "u", "5")}, []string{"ADDED b/u/5"}, nil},
		"objects without uid":      {know(add("a", "", "1"), add("b", "", "2")), []shown{add("a", "", "3")}, []string{"MODIFIED a//3"}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDiff(c.known)
			var got []string
			for _, o := range c.list {
				is, err := d.Observe(o.typ, []byte("ns"), []byte(o.name), []byte(o.uid), []byte(o.rv))
				if err != nil {
					t.Fatal(err)
				}
				if is.Replaced {
					got = append(got, fmt.Sprintf("gone %s/%s/%s", is.Old.Name, is.Old.UID, is.Old.ResourceVersion))
				}
				if is.Verdict == News {
					got = append(got, fmt.Sprintf("%s %s/%s/%s", is.Type, o.name, o.uid, o.rv))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("told\n got  %q\n want %q", got, c.want)
			}
			var gone []string
			for _, name := range slices.Sorted(maps.Keys(c.known)) {
				k := c.known[name]
				k.Namespace = "ns"
				if d.Missing(k) {
					gone = append(gone, name)
				}
			}
			if !slices.Equal(gone, c.gone) {
				t.Errorf("gone\n got  %q\n want %q", gone, c.gone)
			}
		})
	}
}

func TestDiffUnchangedIsNotARepeat(t *testing.T) {
	d := newDiff(know(add("a", "u1", "5")))
	for i, want := range []Verdict{Unchanged, Repeat} {
		if got, _ := d.Observe(line.Added, nil, []byte("a"), []byte("u1"), []byte("5")); got.Verdict != want {
			t.Errorf("time %d: got %d, want %d", i+1, got.Verdict, want)
		}
	}
}

// The same name in two namespaces is two objects, also without uids.
func TestDiffNamespaces(t *testing.T) {
	d := newDiff(know())
	for _, namespace := range []string{"x", "y"} {
		if got, _ := d.Observe(line.Added, []byte(namespace), []byte("a"), nil, []byte("5")); got.Verdict != News || got.Type != line.Added {
			t.Errorf("in %s: %+v", namespace, got)
		}
	}
	if identify("", "a", "b-c") == identify("", "a-b", "c") {
		t.Error("one identity for two names")
	}
}

func TestDiffLookupFails(t *testing.T) {
	fault := errors.New("disk")
	d := Diff{Known: func(string, string) (object.Known, bool, error) { return object.Known{}, false, fault }}
	if _, err := d.Observe(line.Added, nil, []byte("a"), []byte("u"), []byte("1")); !errors.Is(err, fault) {
		t.Errorf("got %v", err)
	}
}

// TestDiffProperty makes up what is known, a server's history since then, and
// the way in which a list shows it: first sight in any order and more than once,
// then what happens meanwhile, in order. What the diff tells, applied to what is
// known, must be what the server has; and nothing that did not change is told.
func TestDiffProperty(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := history{rand: r, version: 10, live: make(book)}
		for range r.IntN(20) {
			w.step()
		}
		known := maps.Clone(w.live)
		for range r.IntN(20) {
			w.step()
		}
		var list []shown
		for _, k := range w.live {
			for range 1 + r.IntN(2) {
				list = append(list, add(k.Name, k.UID, k.ResourceVersion))
			}
		}
		slices.SortFunc(list, func(a, b shown) int { return slices.Compare([]byte(a.name), []byte(b.name)) })
		if r.IntN(2) == 0 {
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
		for range r.IntN(15) {
			list = append(list, w.step()...)
		}
		if err := applied(known, list, w.live); err != nil {
			t.Fatalf("seed %d: %v\nknown %v\nlist %v", seed, err, known, list)
		}
	}
}

// history is a server's objects.
type history struct {
	rand          *rand.Rand
	version, uids int
	live          book
}

// step is one write; it returns the events that a watch would show.
func (h *history) step() []shown {
	h.version++
	rv, name := strconv.Itoa(h.version), string(rune('a'+h.rand.IntN(6)))
	k, ok := h.live[name]
	switch {
	case !ok:
		h.uids++
		k = object.Known{Name: name, UID: fmt.Sprint("u", h.uids), ResourceVersion: rv}
		h.live[name] = k
		return []shown{add(name, k.UID, rv)}
	case h.rand.IntN(2) == 0:
		delete(h.live, name)
		return []shown{drop(name, k.UID, rv)}
	}
	k.ResourceVersion = rv
	h.live[name] = k
	return []shown{modify(name, k.UID, rv)}
}

// applied checks the outcome of a list the way a relist writes it: in the list's
// order, and then the deletions that the list shows by leaving out.
func applied(known book, list []shown, live book) error {
	d := newDiff(known)
	var news []shown
	for _, o := range list {
		is, err := d.Observe(o.typ, nil, []byte(o.name), []byte(o.uid), []byte(o.rv))
		if err != nil {
			return err
		}
		if is.Verdict == Unchanged && known[o.name].ResourceVersion != o.rv {
			return fmt.Errorf("%v is called unchanged", o)
		}
		if is.Replaced {
			news = append(news, drop(is.Old.Name, is.Old.UID, is.Old.ResourceVersion+" and gone"))
		}
		if is.Verdict == News {
			o.typ = is.Type
			news = append(news, o)
		}
	}
	reader := maps.Clone(known)
	for _, n := range news {
		k, ok := reader[n.name]
		switch {
		case n.typ == line.Added && ok:
			return fmt.Errorf("%v while %v is there", n, k)
		case n.typ != line.Added && (!ok || k.UID != n.uid):
			return fmt.Errorf("%v of what is not there (%v)", n, k)
		case ok && k.UID == n.uid && k.ResourceVersion == n.rv:
			return fmt.Errorf("%v is told again", n)
		}
		if n.typ == line.Deleted {
			delete(reader, n.name)
			continue
		}
		reader[n.name] = object.Known{Name: n.name, UID: n.uid, ResourceVersion: n.rv}
	}
	for name, k := range maps.Clone(reader) {
		if d.Missing(k) {
			delete(reader, name)
		}
	}
	if !maps.Equal(reader, live) {
		return fmt.Errorf("the reader has %v, the server %v", reader, live)
	}
	return nil
}
