package discovery

import (
	"cmp"
	"fmt"

	"kubejournal/internal/config"
)

// Resolution is what one entry resolves to.
type Resolution struct {
	Streams []Stream // one for each resource and each namespace
	// Err is why the entry resolves to no stream, or to fewer than it asks for; what is in Streams can run. It is a
	// *NotFoundError, *UnwatchableError, *AmbiguousError or *TooManyError where waiting or another server may help, an
	// *EntryError where only the config can, and ErrNothingKnown before the first Refresh that worked.
	Err error
}

// Resolve resolves one entry by itself.
func (r *Resolver) Resolve(entry config.Resource) ([]Stream, error) {
	one := r.ResolveAll([]config.Resource{entry})[0]
	return one.Streams, one.Err
}

// ResolveAll resolves the entries of a config, in their order. A wildcard covers what no narrower entry names, whatever
// the namespaces and selectors of that one are. Of two entries that resolve to the same, the later one has the error.
func (r *Resolver) ResolveAll(entries []config.Resource) []Resolution {
	all := make([]Resolution, len(entries))
	s := r.known.Load()
	if s == nil {
		for i := range all {
			all[i].Err = ErrNothingKnown
		}
		return all
	}
	taken := claims{}
	for width := 0; width <= widest; width++ {
		var claimed []served // from entries that cover more only: two that cover as much take nothing from each other
		for i, entry := range entries {
			if breadth(entry) != width {
				continue
			}
			var found []served
			if width == 0 {
				claimed = append(claimed, s.named(entry.Name, entry.Group, entry.Version)...)
				found, all[i].Err = s.explicit(entry)
			} else {
				found = s.cover(entry, taken)
				claimed = append(claimed, found...)
			}
			if all[i].Err == nil {
				all[i].Streams, all[i].Err = s.streams(entry, found)
			}
		}
		for _, r := range claimed {
			taken.add(r, true)
		}
	}
	s.settle(entries, all)
	r.limit(entries, all)
	s.markOverlaps(all)
	return all
}

// explicit finds what an entry without wildcards names, and that it can be watched.
func (s *snapshot) explicit(entry config.Resource) ([]served, error) {
	all := s.find(entry.Name, entry.Group, entry.Version)
	// If all groups answered, kubectl would find a bare name elsewhere.
	held := func(r served) bool {
		return entry.Group == nil && isBare(entry.Name) && s.isHeld(r.gvr.GroupResource())
	}
	switch {
	case len(all) > 1:
		return nil, &AmbiguousError{Name: entry.Name, Matches: groupResources(all)}
	case len(all) == 0, held(all[0]):
		return nil, &NotFoundError{Name: written(entry), Near: s.near(written(entry)), Failed: s.failed}
	case !all[0].watchable():
		return nil, &UnwatchableError{GVR: all[0].gvr, Verbs: all[0].Verbs}
	case len(entry.Namespaces) > 0 && !all[0].Namespaced:
		return nil, entryError(entry, "%s.namespaces: %s have no namespaces; leave namespaces out", entry.Entry,
			all[0].gvr.GroupResource())
	}
	return all, nil
}

// streams makes the streams of an entry over resources that can be watched.
func (s *snapshot) streams(entry config.Resource, resources []served) ([]Stream, error) {
	if len(resources) == 0 {
		return nil, s.nothingFor(entry)
	}
	labels, err := config.CanonicalLabels(entry.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("parse label selector %q: %w", entry.LabelSelector, err)
	}
	fields, err := config.CanonicalFields(entry.FieldSelector)
	if err != nil {
		return nil, fmt.Errorf("parse field selector %q: %w", entry.FieldSelector, err)
	}
	var all []Stream
	for _, r := range resources {
		stream := Stream{
			GVR: r.gvr, Kind: r.Kind, Namespaced: r.Namespaced, LabelSelector: labels, FieldSelector: fields,
			Initial: entry.Initial, Entry: entry,
		}
		namespaces := entry.Namespaces
		if len(namespaces) == 0 {
			namespaces = []string{""}
			if r.Namespaced {
				namespaces = []string{entry.Namespace}
			}
		}
		for _, ns := range namespaces {
			stream.Namespace = ns
			all = append(all, stream)
		}
	}
	return all, nil
}

// nothingFor is the error of a wildcard that resolves to nothing.
func (s *snapshot) nothingFor(entry config.Resource) error {
	return &NotFoundError{Name: written(entry), Wildcard: true, Failed: s.failed}
}

// settle finds the streams that two entries resolve to. Of resources that serve the same objects, a wildcard keeps the
// first; so do several of one width, which share the objects as one wildcard over both would.
func (s *snapshot) settle(entries []config.Resource, all []Resolution) {
	type reading struct{ class, scope string }
	readingOf := func(st Stream) reading { return reading{s.served(st.GVR).class(), st.StreamName().Scope()} }
	first := map[reading]int{}
	for i, entry := range entries {
		for _, st := range all[i].Streams {
			at := readingOf(st)
			if best, ok := first[at]; entry.IsWildcard() && (!ok || s.index(st.GVR.Group) < best) {
				first[at] = s.index(st.GVR.Group)
			}
		}
	}
	owner := map[string]config.Resource{}
	read := map[reading]Stream{}
	for i, entry := range entries {
		var kept []Stream
		var fault error
		for _, st := range all[i].Streams {
			at := readingOf(st)
			if entry.IsWildcard() && s.index(st.GVR.Group) > first[at] {
				continue
			}
			if other, taken := owner[st.Name()]; taken {
				fault = cmp.Or[error](fault, sameAs(entry, other, "stream "+st.Name()))
				continue
			}
			if other, taken := read[at]; taken && !entry.IsWildcard() {
				fault = cmp.Or[error](fault, sameAs(entry, other.Entry,
					fmt.Sprintf("objects, which the server has both as %s and as %s", other.Name(), st.Name())))
				continue
			}
			owner[st.Name()], read[at] = entry, st
			kept = append(kept, st)
		}
		if fault == nil && len(kept) == 0 && len(all[i].Streams) > 0 {
			fault = s.nothingFor(entry)
		}
		all[i].Streams = kept
		all[i].Err = cmp.Or(all[i].Err, fault)
	}
}

// markOverlaps marks the streams of one namespace whose objects a stream of all namespaces has too, and those of views.
// It ignores streams with selectors.
func (s *snapshot) markOverlaps(all []Resolution) {
	wide := map[string]bool{} // classes with a stream of all objects
	each := func(visit func(class string, st *Stream)) {
		for i := range all {
			for j := range all[i].Streams {
				if st := &all[i].Streams[j]; !st.Selects() {
					visit(s.served(st.GVR).class(), st)
				}
			}
		}
	}
	each(func(class string, st *Stream) { wide[class] = wide[class] || st.Namespace == "" })
	each(func(class string, st *Stream) {
		st.Overlaps = st.Namespace != "" && wide[class] || views[st.GVR.GroupResource()]
	})
}
