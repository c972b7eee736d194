// Package explain asks a journal why an object is gone, does not run or has changed, and prints the answer.
package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/ask/why"
	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// past is a journal, up to a moment.
type past struct {
	j     *question.Journal
	until argument.Moment
	// asked is the line of that moment; of a time, the last one of what is asked about. Streams that catch up are
	// written in any order: what is received beside it counts by when it was made.
	asked *why.Version

	removed map[string][]uint64 // see removals
	known   map[why.Ref][][]*why.Version
}

// most is how many versions of an object are looked at: its first ones, and most of its last ones.
const most = 2000

// near is how long before and after a time lines are looked for that say what was done then.
const near = time.Hour

// lately is how long before an effect a cause may have been, where no line ties them together.
const lately = time.Minute

// streams returns the streams of a kind, or of every kind but Event.
func (p *past) streams(ctx context.Context, group, kind string) (all []index.Stream, err error) {
	newest, err := p.j.Newest(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range newest {
		for _, s := range x.Streams {
			is := s.Kind == kind && s.Group == group
			if kind == "Event" {
				is = s.Kind == kind
			}
			if kind == "" {
				is = s.Kind != "Event"
			}
			known := slices.ContainsFunc(all, func(o index.Stream) bool { return o.Name == s.Name })
			if is && !known && s.Kind != "" {
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// Watched implements why.Past.
func (p *past) Watched(ctx context.Context, group, kind string) (string, error) {
	all, err := p.streams(ctx, group, kind)
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[0].Resource, nil
}

// Audited implements why.Past.
func (p *past) Audited() bool { return p.j.Named() }

// Versions implements why.Past.
func (p *past) Versions(ctx context.Context, q why.Query) ([][]*why.Version, error) {
	return archive.Again(p.j.Journal, func() ([][]*why.Version, error) { return p.versions(ctx, q) })
}

func (p *past) versions(ctx context.Context, q why.Query) ([][]*why.Version, error) {
	streams, err := p.streams(ctx, q.Group, q.Kind)
	if err != nil || len(streams) == 0 {
		return nil, err
	}
	s := selection(streams, q)
	if len(s.Objects) == 0 {
		return nil, nil
	}
	if (why.Query{Ref: q.Ref}) == q && q.Name != "" {
		return p.named(ctx, s, q.Ref)
	}
	if s.Refers = q.About; q.Owner != "" { // from when on it owns them may be later than their first lines
		if s, err = p.owned(ctx, s, q.Owner); err != nil || len(s.UIDs) == 0 {
			return nil, err
		}
	} else if q.UID != "" {
		s.UIDs = map[string]bool{q.UID: true}
	}
	since, until := argument.Moment{}, p.until
	if q.Lately != nil {
		since, until = argument.Moment{Time: q.Lately.Time.Add(-lately)}, argument.Moment{Seq: q.Lately.Seq}
	}
	if !q.Near.IsZero() {
		since, until = argument.Moment{Time: q.Near.Add(-near)}, argument.Moment{Time: q.Near.Add(near)}
		if p.until.Seq > 0 || !p.until.Time.IsZero() && p.until.Time.Before(until.Time) {
			until = p.until
		}
	}
	return p.read(ctx, s, since, until, q.Ends)
}

// named returns the versions of the objects of a name, or of that with a uid. They are read once.
func (p *past) named(ctx context.Context, s *argument.Selection, of why.Ref) ([][]*why.Version, error) {
	name := of
	name.UID = ""
	all, known := p.known[name]
	if !known {
		var err error
		if all, err = p.read(ctx, s, argument.Moment{}, p.until, false); err != nil {
			return nil, err
		}
		p.remember(name, all)
	}
	if of.UID == "" {
		return all, nil
	}
	for _, versions := range all {
		if versions[0].UID == of.UID {
			return [][]*why.Version{versions}, nil
		}
	}
	return nil, nil
}

func (p *past) remember(name why.Ref, all [][]*why.Version) {
	if p.known == nil {
		p.known = make(map[why.Ref][][]*why.Version)
	}
	p.known[name] = all
}

// read reads the versions of the selected objects between two moments, as lines yields them.
func (p *past) read(
	ctx context.Context, s *argument.Selection, since, until argument.Moment, ends bool,
) ([][]*why.Version, error) {
	removed, err := p.removals(ctx)
	if err != nil {
		return nil, err
	}
	var uids []string
	of := map[string][]*why.Version{}
	for is, err := range p.lines(ctx, s, since, until, ends) {
		if err != nil {
			return nil, err
		}
		if _, known := of[is.UID]; !known {
			uids = append(uids, is.UID)
		}
		if all := of[is.UID]; len(all) > 0 {
			was := all[len(all)-1].Seq
			is.Missed = slices.ContainsFunc(removed[is.Stream+" "+is.Namespace], func(seq uint64) bool {
				return was < seq && seq < is.Seq
			})
		}
		of[is.UID] = append(of[is.UID], is)
		if all := of[is.UID]; len(all) > most {
			of[is.UID] = slices.Delete(all, most/10, most/10+1)
		}
	}
	all := make([][]*why.Version, len(uids))
	for i, uid := range uids {
		all[i] = of[uid]
	}
	return all, nil
}

// lines yields the lines about the selected objects between two moments or, of these, those of additions and deletions.
func (p *past) lines(
	ctx context.Context, s *argument.Selection, since, until argument.Moment, ends bool,
) iter.Seq2[*why.Version, error] {
	return func(yield func(*why.Version, error) bool) {
		atEnd := p.asked != nil && !until.IsZero() && until == p.until
		for v, err := range p.between(ctx, s, since, until, ends) {
			if err == nil && atEnd && until.Seq > 0 {
				if later, known := p.asked.Precedes(v); known && later {
					continue
				}
			}
			if !yield(v, err) {
				return
			}
		}
		if !atEnd {
			return
		}
		later := argument.Moment{Time: p.asked.Time.Add(why.Together)}
		for v, err := range p.between(ctx, s, until.JustAfter(), later, ends) {
			if err == nil {
				if precedes, known := v.Precedes(p.asked); !known || !precedes {
					continue
				}
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// between yields the lines about the selected objects that are between two moments.
func (p *past) between(
	ctx context.Context, s *argument.Selection, since, until argument.Moment, ends bool,
) iter.Seq2[*why.Version, error] {
	return func(yield func(*why.Version, error) bool) {
		for part, err := range p.j.Parts(ctx, s, since, until) {
			if err != nil {
				yield(nil, err)
				return
			}
			steps := slices.DeleteFunc(part.Steps, func(st archive.Step) bool {
				return st.Type > index.Deleted || ends && st.Type == index.Modified
			})
			if !p.j.Walk(ctx, part.Segment, steps, func(v *archive.Version, err error) bool {
				if err != nil {
					return yield(nil, err)
				}
				if v.AboutStream() || v.SaysRemoved() || len(v.Text(line.FieldUID)) == 0 {
					return true
				}
				return yield(versionOf(v.Fields), nil)
			}) {
				return
			}
		}
	}
}

// removals returns the lines that stand in the place of removed ones, by stream and namespace.
func (p *past) removals(ctx context.Context) (map[string][]uint64, error) {
	if p.removed != nil {
		return p.removed, nil
	}
	all := map[string][]uint64{}
	for i := range p.j.Segments {
		x, err := p.j.Index(ctx, i)
		if err != nil {
			return nil, err
		}
		for r, err := range x.Removals() {
			if err != nil {
				return nil, fmt.Errorf("read index: %w", err)
			}
			for _, at := range r.Lines {
				l, err := x.Line(at)
				if err != nil {
					return nil, fmt.Errorf("read index: %w", err)
				}
				all[r.Stream+" "+r.Namespace] = append(all[r.Stream+" "+r.Namespace], l.Seq)
			}
		}
	}
	p.removed = all
	return all, nil
}

// selection returns what a query selects of streams: nothing where it has a name that no object can have.
func selection(streams []index.Stream, q why.Query) *argument.Selection {
	s := &argument.Selection{}
	if q.Namespace != "" {
		s.Namespaces = []string{q.Namespace}
	}
	for i := range streams {
		text := streams[i].Resource + "." + streams[i].Group
		if q.Name != "" {
			text += "/" + q.Name
		}
		if o, err := argument.ParseObject(text); err == nil {
			s.Objects = append(s.Objects, o)
		}
	}
	return s
}

// owned returns a selection of the selected objects that a uid owns.
func (p *past) owned(ctx context.Context, s *argument.Selection, uid string) (*argument.Selection, error) {
	of := &argument.Selection{UIDs: map[string]bool{}, Namespaces: s.Namespaces}
	owned := *s
	owned.Refers = uid
	for i := range p.j.Segments {
		x, err := p.j.Index(ctx, i)
		if err != nil {
			return nil, err
		}
		for m, err := range owned.Matches(x) {
			if err != nil {
				return nil, err
			}
			if of.UIDs[m.UID] {
				continue
			}
			of.UIDs[strings.Clone(m.UID)] = true
			if o, err := argument.ParseObject(m.Stream.Resource + "." + m.Stream.Group + "/" + m.Name); err == nil {
				of.Objects = append(of.Objects, o)
			}
		}
	}
	return of, nil
}

// versionOf returns what a line says.
func versionOf(l *line.Fields) *why.Version {
	stream := l.StreamName()
	v := &why.Version{
		Ref: why.Ref{
			Group: l.Unquoted(line.FieldGroup), Kind: l.Unquoted(line.FieldKind),
			Namespace: l.Unquoted(line.FieldNamespace), Name: l.Unquoted(line.FieldName),
			UID: l.Unquoted(line.FieldUID),
		},
		Resource: l.Unquoted(line.FieldResource), Stream: l.Unquoted(line.FieldStream), Seq: l.Seq,
		Time: l.Time, Made: l.Time, Type: l.Type(), Origin: l.Origin(), Selects: stream.Selects(),
		Manager: l.Unquoted(line.FieldManager), Raw: slices.Clone(l.Object),
		Changes: slices.Clone(l.Value(line.FieldChanges)),
		Partial: l.Incomplete(),
	}
	if person := l.Value(line.FieldPerson); person != nil {
		v.Person = new(audit.Person)
		if json.Unmarshal(person, v.Person) != nil {
			v.Person = nil
		}
	}
	if made, late := l.Late(); late {
		v.Made = made
	}
	v.Version, _ = line.VersionNumber(l.Text(line.FieldResourceVersion)) // 0 where it is no number
	if sub := l.Unquoted(line.FieldSubresource); sub != "" && v.Manager != "" {
		v.Manager += "/" + sub
	}
	if event := l.Value(line.FieldEvent); event != nil {
		var is struct {
			why.Event
			Regarding struct{ Kind, Namespace, Name, UID string }
		}
		if json.Unmarshal(event, &is) == nil {
			r := is.Regarding
			is.Event.Regarding = why.Ref{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID}
			v.Event = &is.Event
		}
	}
	return v
}
