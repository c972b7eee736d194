package watcher_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"

	"kubejournal/internal/index"
	"kubejournal/internal/line"
	"kubejournal/internal/query"
	"kubejournal/test/invariant"
)

// ask asks the journal for the objects at versions of the server, and compares them with what the server had. Where it was
// put back, versions mean two things.
func (m *model) ask(r *rand.Rand) {
	m.t.Helper()
	if m.restored || m.defined > 0 {
		return
	}
	j, err := query.Open(m.journal(), func(string) {})
	must(m.t, err)
	defer j.Close()
	resources := map[string][]modelStream{}
	for _, s := range m.streams {
		name := s.gvr.GroupResource().String()
		resources[name] = append(resources[name], s)
	}
	last := m.srv.Version()
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		o, err := query.ParseObject(name)
		must(m.t, err)
		sel := &query.Selection{Objects: []query.Object{o}}
		var covered []uint64
		states := map[uint64]*query.State{}
		for version := uint64(1); version <= last; version++ {
			if last > 60 && r.Uint64N(last) >= 60 {
				continue
			}
			st, err := j.State(m.t.Context(), sel, query.Moment{Version: version})
			must(m.t, err)
			if len(st.Doubts) > 0 {
				continue
			}
			m.answers(j, st, resources[name], version)
			covered, states[version] = append(covered, version), st
		}
		modelTally.asked.Add(uint64(len(covered)))
		for range min(len(covered), 10) {
			a, b := covered[r.IntN(len(covered))], covered[r.IntN(len(covered))]
			m.leadsTo(j, sel, states[min(a, b)], states[max(a, b)])
		}
	}
}

// answers checks a state against the server's: what the streams that the journal has select.
func (m *model) answers(j *query.Journal, st *query.State, streams []modelStream, version uint64) {
	m.t.Helper()
	told := m.readState(j, st)
	want := invariant.State{}
	for _, s := range streams {
		if _, there := m.inJournal(s.name); there {
			maps.Copy(want, m.expectAt(s, version))
		}
	}
	if err := invariant.Compare(told, want); err != nil {
		m.t.Fatalf("at version %d: %v", version, err)
	}
}

// inJournal reports whether the journal has a line of a stream.
func (m *model) inJournal(stream string) (struct{}, bool) {
	return struct{}{}, slices.ContainsFunc(m.whole(), func(l invariant.Line) bool { return l.Stream == stream })
}

func (m *model) readState(j *query.Journal, st *query.State) invariant.State {
	m.t.Helper()
	state, mu := invariant.State{}, sync.Mutex{}
	must(m.t, j.Read(m.t.Context(), st.Items, func(i int, l *line.Fields) error {
		mu.Lock()
		defer mu.Unlock()
		item := st.Items[i]
		k := invariant.Key{Group: item.Stream.Group, Resource: item.Stream.Resource, Namespace: item.Namespace, Name: item.Name}
		if _, there := state[k]; there {
			return fmt.Errorf("%v is there twice", k)
		}
		o, err := invariant.Expect(k, l.Object)
		state[k] = o
		return err
	}))
	if len(state) != len(st.Items) {
		m.t.Fatalf("%d of %d objects have a line", len(state), len(st.Items))
	}
	return state
}

// leadsTo checks that the difference of two states makes the second one of the first.
func (m *model) leadsTo(j *query.Journal, sel *query.Selection, a, b *query.State) {
	m.t.Helper()
	c, err := j.Compare(m.t.Context(), sel, a.At, b.At)
	must(m.t, err)
	type key struct{ namespace, name, uid string }
	of := func(s *query.State) map[key]index.Place {
		all := map[key]index.Place{}
		for _, i := range s.Items {
			all[key{i.Namespace, i.Name, i.UID}] = i.Last
		}
		return all
	}
	state := of(a)
	for _, ch := range c.Changes {
		i := ch.Item()
		k := key{i.Namespace, i.Name, i.UID}
		if is, there := state[k]; there != (ch.Before != nil) || there && is != ch.Before.Last {
			m.t.Fatalf("from %v to %v: %+v is not as it was", a.At, b.At, ch)
		}
		if ch.Versions == 0 {
			m.t.Fatalf("from %v to %v: nothing changed %+v", a.At, b.At, ch)
		}
		if delete(state, k); ch.After != nil {
			state[k] = ch.After.Last
		}
	}
	if want := of(b); !reflect.DeepEqual(state, want) {
		m.t.Fatalf("from %v to %v: %v, want %v", a.At, b.At, state, want)
	}
}
