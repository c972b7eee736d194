package answer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/klauspost/compress/s2"

	"kubejournal/internal/line"
	"kubejournal/internal/query"
	"kubejournal/internal/rawjson"
	"kubejournal/internal/restore"
	"kubejournal/internal/yamltext"
)

func moment(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// Get says how objects are shown.
type Get struct {
	Format string // table, name, yaml or json
	// Match selects by what an object has; nil takes all. It needs the object.
	Match func(object []byte) bool
	One   bool // an object was named: it is shown itself, not in a list
	// Replaced says of each deleted object whether another one took its name, which applying it would overwrite.
	Replaced []bool
	At       query.Moment
}

// found is an object to show.
type found struct {
	*query.Item
	object  []byte // compressed
	size    int
	created time.Time
	changed time.Time
	by      string
	lacking string // why the object is not whole
}

// Items shows objects as they were.
func (g *Get) Items(ctx context.Context, j *query.Journal, items []query.Item, doubts []query.Doubt, o *Output) error {
	shown := make([]found, len(items))
	lost := 0
	for i := range items {
		shown[i].Item = &items[i]
		if items[i].Gone {
			lost++
		}
	}
	dropped := make([]bool, len(items))
	if g.Format != "name" || g.Match != nil {
		err := j.Read(ctx, items, func(i int, l *line.Fields) error {
			dropped[i] = g.Match != nil && !g.Match(l.Object)
			if !dropped[i] {
				shown[i].take(l, g.Format != "table" && g.Format != "name")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	kept := shown[:0]
	for i := range shown {
		if !dropped[i] && !(shown[i].Gone && g.Format != "name") {
			kept = append(kept, shown[i])
		}
	}
	if err := g.write(kept, o); err != nil {
		return err
	}
	g.explain(kept, lost, o)
	err := o.Doubt(doubts)
	if lost > 0 {
		err = ErrNotCovered
	}
	return err
}

// Cleaned shows objects as kubectl apply takes them. What controllers make again is left out, and what the journal does not
// have in full is refused: ErrRefused.
func (g *Get) Cleaned(ctx context.Context, j *query.Journal, items []query.Item, doubts []query.Doubt, o *Output) error {
	cleaned, verdicts := make([]restore.Object, len(items)), make([]restore.Verdict, len(items))
	dropped := make([]bool, len(items))
	err := j.Read(ctx, items, func(i int, l *line.Fields) error {
		if dropped[i] = g.Match != nil && !g.Match(l.Object); !dropped[i] {
			cleaned[i], verdicts[i] = restore.Clean(l)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var objects []restore.Object
	refused, lost := 0, 0
	for i := range items {
		switch v := &verdicts[i]; {
		case dropped[i]:
		case i < len(g.Replaced) && g.Replaced[i]:
			o.note("%s: left out: another one has taken its name since", title(&items[i]))
		case items[i].Gone:
			lost++
			o.note("%s: refused: the file with its last line was removed", title(&items[i]))
		case v.Outcome == restore.Cleaned:
			objects = append(objects, cleaned[i])
		case v.Outcome == restore.LeftOut:
			o.note("%s: left out: %s", title(&items[i]), printable(v.Reason))
		default:
			refused++
			o.note("%s: refused: %s", title(&items[i]), printable(v.Reason))
		}
	}
	restore.Sort(objects)
	var out []byte
	switch {
	case g.One && len(objects) == 1 && g.Format == "json":
		out = append(out, objects[0].JSON...)
		out = append(out, '\n')
	case g.One && len(objects) == 1:
		out, err = restore.AppendYAML(nil, objects[0])
	case len(objects) == 0:
	case g.Format == "json":
		out, err = restore.AppendList(nil, objects)
	default:
		out, err = restore.AppendListYAML(nil, objects)
	}
	if err == nil {
		_, err = o.Write(out)
	}
	doubt := o.Doubt(doubts)
	switch {
	case err != nil:
		return err
	case refused+lost > 0:
		return ErrRefused
	}
	return doubt
}

// ErrRefused says that an object cannot be given back. It was said.
var ErrRefused = errors.New("refused")

// take notes what is shown of an object.
func (f *found) take(l *line.Fields, object bool) {
	f.changed = l.Time
	if written, ok := l.Written(); ok {
		f.changed = written
	}
	f.by = string(l.Text(line.Manager))
	if sub := l.Text(line.Subresource); f.by != "" && len(sub) > 0 {
		f.by += "/" + string(sub)
	}
	meta := rawjson.Pick(rawjson.At(l.Object, []byte("/metadata")), "creationTimestamp")
	f.created, _ = time.Parse(time.RFC3339, string(rawjson.Inside(meta[0]))) // zero where it is not known
	switch {
	case string(l.Value(line.Truncated)) == "true":
		f.lacking = "its line was truncated"
	case l.Object == nil:
		f.lacking = "its stream keeps no objects (payload: none)"
	case rawjson.Pick(l.Object, "kind")[0] == nil:
		f.lacking = "its stream keeps metadata alone (payload: metadata)"
	}
	if object {
		f.size = len(l.Object)
		f.object = s2.Encode(nil, l.Object)
	}
}

func (g *Get) write(all []found, o *Output) error {
	switch g.Format {
	case "name":
		for _, f := range all {
			if _, err := fmt.Fprintf(o, "%s/%s\n", kind(f.Stream), f.Name); err != nil {
				return err
			}
		}
		return nil
	case "table":
		return g.table(all, o)
	}
	return g.objects(all, o)
}

func (g *Get) table(all []found, o *Output) error {
	if len(all) == 0 {
		return nil
	}
	at := g.At.Time
	if at.IsZero() {
		for _, f := range all {
			if f.changed.After(at) {
				at = f.changed
			}
		}
	}
	namespaced := slices.ContainsFunc(all, func(f found) bool { return f.Namespace != all[0].Namespace })
	kinds := slices.ContainsFunc(all, func(f found) bool { return f.Stream.Resource != all[0].Stream.Resource })
	t := tabwriter.NewWriter(o, 0, 0, 3, ' ', 0)
	if namespaced {
		fmt.Fprint(t, "NAMESPACE\t")
	}
	fmt.Fprintln(t, "NAME\tAGE\tLAST CHANGE\tBY")
	for _, f := range all {
		if namespaced {
			fmt.Fprint(t, printable(or(f.Namespace))+"\t")
		}
		name := f.Name
		if kinds {
			name = kind(f.Stream) + "/" + name
		}
		age := "-"
		if !f.created.IsZero() {
			then := at
			if f.Deleted {
				then = f.changed
			}
			age = duration(then.Sub(f.created))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", printable(name), age, moment(f.changed), printable(or(f.by)))
	}
	return t.Flush()
}

func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// duration returns an age as kubectl shows it, roughly: the two largest units.
func duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// objects writes YAML or JSON as kubectl does: one object as it is, several in a List, one after the other.
func (g *Get) objects(all []found, o *Output) error {
	out := bufio.NewWriter(o)
	if g.One && len(all) == 1 {
		if err := g.object(out, &all[0], "", ""); err != nil {
			return err
		}
		return out.Flush()
	}
	head, tail := "apiVersion: v1\nitems:\n", "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
	switch {
	case g.Format == "json":
		head, tail = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [", "\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"
	case len(all) == 0:
		head = "apiVersion: v1\nitems: []\n"
	}
	_, _ = out.WriteString(head) // Flush returns the error of any
	for i := range all {
		first := "- "
		if g.Format == "json" {
			first = "\n        "
			if i > 0 {
				first = ",\n        "
			}
		}
		if err := g.object(out, &all[i], first, strings.Repeat(" ", len(first)-strings.LastIndexByte(first, '\n')-1)); err != nil {
			return err
		}
	}
	_, _ = out.WriteString(tail)
	return out.Flush()
}

// object writes an object: by itself or, behind first, as an item of a list.
func (g *Get) object(out *bufio.Writer, f *found, first, indent string) error {
	object, err := f.bytes()
	if err != nil {
		return err
	}
	if g.Format == "json" {
		_, _ = out.WriteString(first)
		var v any
		d := json.NewDecoder(bytes.NewReader(object))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return fmt.Errorf("read object: %w", err)
		}
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent(indent, "    ")
		if err := e.Encode(v); err != nil {
			return err
		}
		if indent != "" {
			text.Truncate(text.Len() - 1) // the line's end comes with what follows
		}
		_, err := text.WriteTo(out)
		return err
	}
	if first != "" {
		object = append(append([]byte{'['}, object...), ']') // which has long lines broken where they are in a list
	}
	text, err := yamltext.Append(nil, object, yamltext.Options{})
	if err != nil {
		return err
	}
	_, _ = out.Write(text)
	return nil
}

// bytes returns the object, {} where there is none.
func (f *found) bytes() ([]byte, error) {
	object, err := s2.Decode(nil, f.object)
	if err == nil && len(object) == 0 {
		object = fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":%q,"uid":%q}}`,
			strings.TrimPrefix(f.Stream.Group+"/"+f.Stream.Version, "/"), f.Stream.Kind, f.Name, f.Namespace, f.UID)
	}
	return object, err
}

// explain says what is not in the answer, and why an empty one is empty.
func (g *Get) explain(all []found, lost int, o *Output) {
	lacking := make(map[string][]string)
	for i := range all {
		if why := all[i].lacking; why != "" {
			lacking[why] = append(lacking[why], title(all[i].Item))
		}
	}
	for why, names := range lacking {
		o.note("%s of %s", why, some(names))
	}
	if lost > 0 {
		o.note("%d objects were there whose last lines are in files that were removed", lost)
	}
	if len(all)+lost == 0 {
		o.note("no such object was there at %s", g.At)
	}
}

// some lists the first of some names.
func some(names []string) string {
	const few = 3
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}
