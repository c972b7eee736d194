package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubejournal/internal/index"
)

// family is what is found of a selection's relations.
type family struct {
	up, down   map[string]bool // uids; down has those that were selected, and "Kind namespace/name" of each
	namespaces map[string]bool
}

// Related returns a selection of the selected objects and those that belong to them, in the lines between two moments:
// what they own, and what that owns; their owners, and theirs; and the Events about any of what they own.
func (j *Journal) Related(ctx context.Context, s *Selection, since, until Moment) (*Selection, error) {
	return again(j, func() (*Selection, error) { return j.related(ctx, s, since, until) })
}

func (j *Journal) related(ctx context.Context, s *Selection, since, until Moment) (*Selection, error) {
	f := &family{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	begin := 0
	for begin < len(j.segments)-1 && j.outside(begin, since, until) {
		begin++
	}
	begin, err := j.base(ctx, begin)
	if err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		before := len(f.up) + len(f.down)
		for i := begin; i < len(j.segments); i++ {
			if until.Seq > 0 && j.segments[i].FirstSeq > until.Seq {
				break
			}
			x, err := j.index(ctx, i)
			if err != nil {
				return nil, err
			}
			if first {
				err = f.take(x, s)
			} else {
				err = f.look(x)
			}
			if err != nil {
				return nil, fmt.Errorf("read index: %w", err)
			}
		}
		if !first && len(f.up)+len(f.down) == before {
			break
		}
	}
	uids := maps.Clone(f.up)
	maps.Copy(uids, f.down)
	delete(f.namespaces, "")
	return &Selection{UIDs: uids, Namespaces: slices.Sorted(maps.Keys(f.namespaces)), bare: true}, nil
}

// take begins with what is selected.
func (f *family) take(x *index.Index, s *Selection) error {
	for _, p := range s.picks(x) {
		for o, err := range s.objects(x, p) {
			if err != nil {
				return err
			}
			f.add(&x.Streams[p.stream], o)
			f.own(o)
		}
	}
	return nil
}

func (f *family) add(s *index.Stream, o *index.Object) {
	f.down[o.UID] = true
	f.down[s.Kind+" "+o.Namespace+"/"+o.Name] = true
	f.namespaces[strings.Clone(o.Namespace)] = true
}

// own notes the owners of an object; what an Event is about is none.
func (f *family) own(o *index.Object) {
	for _, uid := range o.Refs {
		if !strings.Contains(uid, " ") {
			f.up[uid] = true
		}
	}
}

// look goes through all objects of the family's namespaces once.
func (f *family) look(x *index.Index) error {
	s := &Selection{Namespaces: slices.Sorted(maps.Keys(f.namespaces)), bare: true}
	for _, p := range s.picks(x) {
		stream := &x.Streams[p.stream]
		events := stream.Resource == "events"
		for o, err := range s.objects(x, p) {
			switch {
			case err != nil:
				return err
			case slices.ContainsFunc(o.Refs, func(uid string) bool { return f.down[uid] }):
				f.add(stream, o)
			case f.up[o.UID] && !events:
				f.own(o)
			}
		}
	}
	return nil
}
