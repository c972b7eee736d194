package report

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/follow"
	"kubejournal/internal/ask/rows"
	"kubejournal/internal/format/builtin"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/host/terminal"
)

// gatherer reads the versions of a page, one after the other.
type gatherer struct {
	page

	r         *Report
	a         *answer.Asked
	uids      map[string]int // of Objects
	documents map[int]*document
	specs     map[int][]byte
	named     map[int]map[string]bool // texts in specs
	restarted map[int]int             // how often containers of pods were
	gaps      map[string]time.Time    // that have not ended, by stream: since when
	streams   map[string]int          // of Streams
	confirmed int64                   // the last time that any stream confirms
	ops       []byte

	seen, text, large, unchanged, removed int // versions; bytes of YAML; versions without; whose changes are not known
}

// take takes a line.
func (g *gatherer) take(ctx context.Context, v *archive.Version) error {
	if g.seen++; g.seen > MaxVersions {
		return nil
	}
	is := version{Seq: v.Seq, At: v.Time.UnixMilli(), Type: string(v.Type()), Object: -1, Kind: "g"}
	if g.Cluster == "" {
		g.Cluster = terminal.Line(v.Unquoted(line.FieldCluster))
	}
	stream := v.Unquoted(line.FieldStream)
	if v.AboutStream() || v.SaysRemoved() || v.SaysSealed() {
		delete(g.gaps, stream)
		if v.Type() == line.Gap {
			var from time.Time
			_ = from.UnmarshalText(v.Text(line.FieldFromTime)) // zero where it is not known
			g.gaps[stream] = from
		}
		if v.AboutStream() {
			for o, d := range g.documents {
				if g.Objects[o].Stream == g.streamOf(stream) {
					if err := d.Add(v.Fields); err != nil {
						return err
					}
				}
			}
		}
		is.What = strings.TrimSpace(terminal.Line(stream) + ": " + follow.What(v.Fields, rowLimit))
		is.Noise = v.Type() != line.Gap && !v.SaysRemoved()
		g.Versions = append(g.Versions, is)
		return nil
	}
	if at, ok := v.Written(); ok {
		is.written = at.UnixMilli()
	}
	is.server, _ = line.VersionNumber(v.Text(line.FieldResourceVersion))
	if made, late := v.Late(); late {
		is.At, is.Received = made.UnixMilli(), is.At
	}
	if err := g.when(ctx, v, stream, &is); err != nil {
		return err
	}
	first := g.objectOf(v, stream, &is)
	_, err := answer.Compare(ctx, v, &g.ops)
	if errors.Is(err, archive.ErrRemoved) {
		g.removed++
	} else if err != nil {
		return err
	}
	var paths []string
	for op := range rawjson.Elements(v.Value(line.FieldChanges)) {
		paths = append(paths, string(rawjson.Inside(rawjson.Pick(op, "path")[0])))
	}
	is.Kind = kindOf(v, paths)
	is.Noise = rows.NoiseOf(v.Fields, v.Value(line.FieldChanges)) != rows.NoNoise || is.Kind == "f"
	is.Who, is.Person = follow.Who(v.Fields), terminal.Line(rows.User(v.Fields))
	is.What = follow.What(v.Fields, rowLimit)
	if v.Type() != line.Deleted {
		is.Manager = terminal.Line(rows.Manager(v.Unquoted(line.FieldManager)))
	}
	if event := v.Value(line.FieldEvent); len(event) > 0 {
		is.Manager = is.Who
		if is.Kind = "e"; string(rawjson.Pick(event, "type")[0]) == `"Warning"` && v.Type() != line.Deleted {
			is.Kind, is.Noise = "w", false
			if !v.Snapshot() {
				is.Symptom = terminal.Line("Warning " + word(event, "/reason"))
			}
		}
	}
	if err := g.look(ctx, v, &is, first); err != nil {
		return err
	}
	g.Versions = append(g.Versions, is)
	return nil
}

// rowLimit is about how many columns what happened takes on the page.
const rowLimit = 160

// when finds out since when a change may have been made that was received late, or found after a gap.
func (g *gatherer) when(ctx context.Context, v *archive.Version, stream string, is *version) error {
	if v.Type() != line.Deleted && v.Type() != line.Modified || is.Received != 0 {
		return nil
	}
	from, inGap := g.gaps[stream]
	if !inGap {
		var err error
		if from, err = g.a.Journal.NotBefore(ctx, v.Fields); err != nil {
			return err
		}
	}
	if !from.IsZero() {
		is.After = from.UnixMilli()
	}
	return nil
}

func (g *gatherer) streamOf(name string) int {
	n, known := g.streams[name]
	if !known {
		n, g.streams[name] = len(g.Streams), len(g.Streams)
		g.Streams = append(g.Streams, stream{Name: terminal.Line(name), Holes: []hole{}, Late: []hole{}})
	}
	return n
}

// objectOf notes the object of a version, and reports whether it is its first.
func (g *gatherer) objectOf(v *archive.Version, stream string, is *version) (first bool) {
	o := object{
		Resource: v.Unquoted(line.FieldResource), Kind: terminal.Line(v.Unquoted(line.FieldKind)),
		Namespace: terminal.Line(v.Unquoted(line.FieldNamespace)), Name: terminal.Line(v.Unquoted(line.FieldName)),
		UID: terminal.Line(v.Unquoted(line.FieldUID)), Owner: -1, Stream: g.streamOf(stream), States: []state{},
	}
	if group := v.Unquoted(line.FieldGroup); group != "" && !builtin.HasGroup(group) {
		o.Resource += "." + group
	}
	o.Resource = terminal.Line(o.Resource)
	key := cmp.Or(o.UID, o.Resource+" "+o.Namespace+" "+o.Name)
	n, known := g.uids[key]
	if !known {
		n, g.uids[key] = len(g.Objects), len(g.Objects)
		o.Lane = n
		g.Objects = append(g.Objects, o)
	}
	is.Object = n
	of := &g.Objects[n]
	for owner := range rawjson.Elements(rawjson.At(v.Object, []byte("/metadata/ownerReferences"))) {
		if of.ownerUID == "" || string(rawjson.Pick(owner, "controller")[0]) == "true" {
			of.ownerKind, of.ownerName, of.ownerUID = word(owner, "/kind"), word(owner, "/name"), word(owner, "/uid")
		}
	}
	for _, label := range []string{
		"app.kubernetes.io~1part-of", "app.kubernetes.io~1instance", "app.kubernetes.io~1name", "app", "k8s-app",
	} {
		if of.App == "" {
			of.App = terminal.Line(word(v.Object, "/metadata/labels/"+label))
		}
	}
	if event := v.Value(line.FieldEvent); len(event) > 0 {
		r := rawjson.Pick(event, "regarding")[0]
		of.regarding = [4]string{word(r, "/kind"), word(r, "/namespace"), word(r, "/name"), word(r, "/uid")}
	}
	return !known
}

// look takes the object of a version: its YAML, and how it fares.
func (g *gatherer) look(ctx context.Context, v *archive.Version, is *version, first bool) error {
	d := g.documents[is.Object]
	o := &g.Objects[is.Object]
	if d == nil {
		d = &document{first: v.Seq}
		g.documents[is.Object] = d
	}
	if first && v.Type() != line.Added {
		previous, err := v.Previous(ctx)
		if err != nil && !errors.Is(err, archive.ErrRemoved) {
			return err
		}
		if previous != nil && len(previous.Object) <= maxObject {
			hunks, known, err := d.next(previous)
			if err != nil {
				return err
			}
			if known && len(hunks) > 0 {
				o.Base = hunks[0].Lines
				g.text += len(o.Base)
			}
			o.States = append(o.States, stateOf(o.Kind, previous.Object, quiet))
			g.restarted[is.Object], _ = restarts(previous.Object)
		}
	}
	switch {
	case len(v.Object) > maxObject || g.text > maxText:
		g.large++
		is.Lacks = "too large for this page"
	default:
		hunks, known, err := d.next(v.Fields)
		if err != nil {
			return err
		}
		is.Lines = hunks
		for _, h := range hunks {
			g.text += len(h.Lines)
		}
		switch {
		case known:
		case v.Incomplete():
			is.Lacks = "the line is truncated"
		default:
			is.Lacks = "the line does not have the object"
		}
	}
	if o.regarding[2] != "" {
		return nil
	}
	if spec := rawjson.At(v.Object, []byte("/spec")); spec != nil {
		g.specs[is.Object] = bytes.Clone(spec)
	}
	was := state{Level: quiet}
	if n := len(o.States); n > 0 {
		was = o.States[n-1]
	}
	now := stateOf(o.Kind, v.Object, was.Level)
	now.Text = terminal.Line(now.Text)
	if v.Type() == line.Deleted {
		now = state{Level: absent, Text: "deleted"}
	} else if len(v.Object) == 0 {
		return nil
	}
	if now.At = is.At; now.Level != was.Level || now.Text != was.Text || len(o.States) == 0 {
		o.States = append(o.States, now)
	}
	count, died := restarts(v.Object)
	if v.Type() != line.Deleted && !v.Snapshot() {
		if now.Level == bad && was.Level != bad {
			is.Symptom = terminal.Line(now.Text)
		} else if count > g.restarted[is.Object] {
			is.Symptom = terminal.Line(strings.TrimSpace("restarted " + died))
		}
	}
	is.Noise = is.Noise && is.Symptom == ""
	g.restarted[is.Object] = count
	return nil
}

// place finds the owner of each object, and what Events are about. What is not on the page by itself is there by its
// name.
func (g *gatherer) place() {
	byName := map[string]int{}
	for n := range g.Objects {
		o := &g.Objects[n]
		byName[o.Kind+" "+o.Namespace+" "+o.Name] = n
	}
	find := func(kind, namespace, name, uid string) int {
		name, kind, namespace = terminal.Line(name), terminal.Line(kind), terminal.Line(namespace)
		if n, known := g.uids[terminal.Line(uid)]; known && uid != "" {
			return n
		}
		key := fmt.Sprintf("%s %s %s", kind, namespace, name)
		if n, known := byName[key]; known {
			return n
		}
		n := len(g.Objects)
		byName[key] = n
		g.Objects = append(g.Objects, object{
			Kind: kind, Namespace: namespace, Name: name, Owner: -1, Lane: n, Stream: -1, States: []state{},
		})
		return n
	}
	for n := range slices.Clone(g.Objects) {
		o := g.Objects[n]
		switch r := o.regarding; {
		case r[2] != "":
			namespace := r[1]
			if r[0] == "Node" || r[0] == "Namespace" {
				namespace = ""
			}
			g.Objects[n].Lane = find(r[0], namespace, r[2], r[3])
		case o.ownerUID != "":
			namespace := o.Namespace
			if o.ownerKind == "Node" {
				namespace = ""
			}
			owner := find(o.ownerKind, namespace, o.ownerName, o.ownerUID)
			for up := owner; up != n; up = g.Objects[up].Owner { // unless it would own itself
				if g.Objects[up].Owner < 0 {
					g.Objects[n].Owner = owner
					break
				}
			}
		}
	}
}

func (g *gatherer) laneOf(v *version) int {
	if v.Object < 0 {
		return -1
	}
	return g.Objects[v.Object].Lane
}
