package answer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"kubejournal/internal/line"
	"kubejournal/internal/query"
	"kubejournal/internal/restore"
	"kubejournal/internal/yamltext"
)

func moment(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// Get says how objects are shown.
type Get struct {
	Format string // table, name, yaml or json
	// Match selects by what an object has; nil takes all. It needs the object.
	Match    func(object []byte) bool
	One      bool // an object was named: it is shown itself, not in a list
	Terminal bool // what would not show there is escaped
	// Replaced says of each deleted object whether another one took its name, which applying it would overwrite.
	Replaced []bool
	At       query.Moment
}

// Items shows objects as they were.
func (g *Get) Items(ctx context.Context, j *query.Journal, items []query.Item, doubts []query.Doubt, o *Output) error {
	there, lost := make([]query.Item, 0, len(items)), 0
	for _, item := range items {
		if item.Gone {
			lost++
		}
		if !item.Gone || g.Format == "name" {
			there = append(there, item)
		}
	}
	if g.Format != "name" {
		if err := j.Describe(ctx, there); err != nil {
			return err
		}
	}
	shown, err := g.show(ctx, j, there, o)
	if err != nil {
		return err
	}
	for i := range there {
		if item := &there[i]; !item.Found.IsZero() {
			o.note("%s: found to be deleted at %s, behind a gap; shown as the last line before has it", title(item), moment(item.Found))
		}
	}
	switch {
	case lost > 0:
		o.note("the last lines about %s are in files that were removed", count(lost, "object"))
	case shown == 0 && g.At.IsZero():
		o.note("no such object was deleted in that time")
	case shown == 0:
		o.note("no such object was there at %s", g.At)
	}
	err = o.Doubt(doubts)
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

// show prints the objects, and returns how many there were.
func (g *Get) show(ctx context.Context, j *query.Journal, items []query.Item, o *Output) (int, error) {
	if g.Format == "yaml" || g.Format == "json" {
		return g.objects(ctx, j, items, o)
	}
	if g.Match != nil {
		matches := make([]bool, len(items))
		err := j.Read(ctx, items, func(i int, l *line.Fields) error {
			matches[i] = g.Match(l.Object)
			return nil
		})
		if err != nil {
			return 0, err
		}
		kept := items[:0]
		for i := range items {
			if matches[i] {
				kept = append(kept, items[i])
			}
		}
		items = kept
	}
	if g.Format == "table" {
		return len(items), g.table(items, o)
	}
	for i := range items {
		if _, err := fmt.Fprintf(o, "%s/%s\n", kind(items[i].Stream), items[i].Name); err != nil {
			return 0, err
		}
	}
	return len(items), nil
}

func (g *Get) table(all []query.Item, o *Output) error {
	if len(all) == 0 {
		return nil
	}
	at := g.At.Time
	if at.IsZero() {
		for _, f := range all {
			if f.Made.After(at) {
				at = f.Made
			}
		}
	}
	namespaced := slices.ContainsFunc(all, func(f query.Item) bool { return f.Namespace != all[0].Namespace })
	kinds := slices.ContainsFunc(all, func(f query.Item) bool { return f.Stream.Resource != all[0].Stream.Resource })
	t := tabwriter.NewWriter(o, 0, 0, 3, ' ', 0)
	if namespaced {
		fmt.Fprint(t, "NAMESPACE\t")
	}
	zone, _ := time.Now().Zone()
	fmt.Fprintf(t, "NAME\tAGE\tLAST CHANGE (%s)\tBY\n", zone)
	for i := range all {
		f := &all[i]
		if namespaced {
			fmt.Fprint(t, printable(or(f.Namespace))+"\t")
		}
		name := f.Name
		if kinds {
			name = kind(f.Stream) + "/" + name
		}
		age := "-"
		if !f.Created.IsZero() {
			then := at
			if f.Deleted {
				then = f.Made
			}
			age = duration(then.Sub(f.Created))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", printable(name), age, moment(f.Made), printable(or(f.Writer)))
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

// batch bounds the objects that are in memory, in bytes of lines.
const batch = 6 << 20

// objects writes YAML or JSON as kubectl does: one object as it is, several in a List. It returns how many there were.
func (g *Get) objects(ctx context.Context, j *query.Journal, items []query.Item, o *Output) (shown int, err error) {
	head, tail, empty := "apiVersion: v1\nitems:\n", "kind: List\nmetadata:\n  resourceVersion: \"\"\n", "apiVersion: v1\nitems: []\n"
	if g.Format == "json" {
		head, tail = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n", "\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"
		empty = strings.TrimSuffix(head, "\n")
	}
	list := !g.One || len(items) != 1
	if !list {
		head, tail, empty = "", "", ""
	}
	out := bufio.NewWriter(o)
	lack := make(map[string][]string) // names of objects, by why they are not whole
	for len(items) > 0 {
		n, size := 0, int64(0)
		for ; n < len(items) && (n == 0 || size+items[n].Size <= batch); n++ {
			size += items[n].Size
		}
		texts, why := make([][]byte, n), make([]string, n)
		err := j.Read(ctx, items[:n], func(i int, l *line.Fields) (err error) {
			if g.Match == nil || g.Match(l.Object) {
				why[i] = lacking(l)
				texts[i], err = g.text(&items[i], l.Object, list)
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		for i, text := range texts {
			if text == nil {
				continue
			}
			_, _ = out.WriteString(head) // Flush returns the error of any
			if head = ""; g.Format == "json" {
				head = ",\n"
			}
			_, _ = out.Write(text)
			if shown++; why[i] != "" {
				lack[why[i]] = append(lack[why[i]], title(&items[i]))
			}
		}
		items = items[n:]
	}
	if shown == 0 {
		_, _ = out.WriteString(empty)
	}
	_, _ = out.WriteString(tail)
	for _, why := range slices.Sorted(maps.Keys(lack)) {
		o.note("%s: %s", some(lack[why]), why)
	}
	return shown, out.Flush()
}

// text returns an object as YAML or JSON: by itself, or as an item of a list.
func (g *Get) text(item *query.Item, object []byte, list bool) (text []byte, err error) {
	if len(object) == 0 {
		object = fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":%q,"uid":%q}}`,
			strings.TrimPrefix(item.Stream.Group+"/"+item.Stream.Version, "/"), item.Stream.Kind, item.Name, item.Namespace, item.UID)
	}
	switch {
	case g.Format == "json":
		text, err = indented(object, list)
	case list:
		text, err = yamltext.Append(nil, append(append([]byte{'['}, object...), ']'), yamltext.Options{}) // long lines are broken earlier there
	default:
		text, err = yamltext.Append(nil, object, yamltext.Options{})
	}
	if err == nil && g.Terminal {
		text = yamltext.AppendPrintable(nil, text)
	}
	return text, err
}

// indented returns an object as kubectl prints it, keys in order; as an item of a list without the end of its last line.
func indented(object []byte, list bool) ([]byte, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if !list {
		e.SetIndent("", "    ")
		err := e.Encode(v)
		return text.Bytes(), err
	}
	const indent = "        "
	text.WriteString(indent)
	e.SetIndent(indent, "    ")
	err := e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// some lists the first of some names.
func some(names []string) string {
	const few = 3
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}
