package blame

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"kubejournal/internal/ask/yamltext"
	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/rawjson"
)

// Result is a version of an object with the writes that its values are from. Its JSON is what blame -o json prints;
// fields may be added to it.
type Result struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
	Version    string `json:"resourceVersion,omitempty"`

	Seq    uint64    `json:"seq"` // of the version's line
	Time   time.Time `json:"time"`
	Missed Point     `json:"missed,omitzero"` // the first later version that the journal does not have whole
	// the DELETED line: the object was deleted or left its stream's selection
	Deleted Point `json:"deleted,omitzero"`

	// Fields are the values of the object, in the order of Lines: its scalars, its empty objects and lists, and as one
	// value what is nested deeper than yamltext.MaxDepth, with the last write in it.
	Fields []Field `json:"fields"`
	// Removed are the values that the object no longer has, with the writes that removed them, oldest first. A value
	// that was changed is not removed, and neither is a scalar in a list if another took its place.
	Removed []Field `json:"removed,omitempty"`
	// values that were removed earlier and are not in Removed, for memory's sake
	Dropped int `json:"removedDropped,omitzero"`
	// Lines are the object as kubectl prints it, as YAML.
	Lines []Line `json:"-"`
}

// Field is a value at a path such as spec.containers[web].image or data["a.b"]. Elements of lists have the keys by
// which they are paired, scalars in lists themselves, the others their positions.
type Field struct {
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
	*Write
}

// Line is a line of YAML, without its end. Its Write is that of the value on it, on all lines of a string. A line that
// only opens an object or a list has the write that added or replaced that.
type Line struct {
	Text string
	*Write
}

const managedFields = "/metadata/managedFields"

// ErrNoObject means that no line had the object.
var ErrNoObject = errors.New("no version of the object is in the journal")

// Result returns the object as the lines have left it, without managedFields and what the JSON Pointers lead to. With
// ErrNoObject, no line had it.
func (h *History) Result(without ...string) (*Result, error) {
	if h.root == nil {
		return nil, ErrNoObject
	}
	decoder := json.NewDecoder(bytes.NewReader(h.object))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	for key, value := range map[string]string{"apiVersion": h.apiVersion, "kind": h.kind} {
		if object[key] == nil { // as servers leave it in a list
			object[key] = value
		}
	}
	r := &Result{Version: h.version, Seq: h.last.Seq, Time: h.last.Time, Missed: h.missed, Deleted: h.deleted,
		Dropped: h.removed.dropped}
	r.APIVersion, _ = object["apiVersion"].(string)
	r.Kind, _ = object["kind"].(string)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		r.Namespace, _ = metadata["namespace"].(string)
		r.Name, _ = metadata["name"].(string)
		r.UID, _ = metadata["uid"].(string)
	}
	without = append(slices.Clip(without), managedFields)
	r.Removed = slices.DeleteFunc(h.removed.sorted(), func(f Field) bool {
		return slices.ContainsFunc(without, func(pointer string) bool { return isBelow(f.Path, pointer) })
	})
	if err := r.print(object, without, h); err != nil {
		return nil, err
	}
	return r, nil
}

// isBelow reports whether a path leads to what a pointer leads to, or into it.
func isBelow(path, pointer string) bool {
	var prefix []byte
	for _, step := range fieldpath.PointerSteps(pointer) {
		prefix = fieldpath.AppendKey(prefix, step)
	}
	rest, ok := strings.CutPrefix(path, string(prefix))
	return ok && len(prefix) > 0 && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// print makes Lines and Fields.
func (r *Result) print(object map[string]any, without []string, h *History) error {
	encoded, err := json.Marshal(object)
	if err == nil {
		encoded, err = yamltext.Append(nil, encoded, yamltext.Options{Without: without})
	}
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(encoded, &document); err != nil || len(document.Content) != 1 {
		return fmt.Errorf("read YAML: %w", err)
	}
	p := printer{Result: r, hidden: h.hidden, unsure: map[*Write]*Write{}}
	for text := range strings.Lines(string(encoded)) {
		n := strings.Count(text, "\u2028") + strings.Count(text, "\u2029")
		for range n + 1 {
			p.at = append(p.at, len(r.Lines))
		}
		r.Lines = append(r.Lines, Line{Text: strings.TrimSuffix(text, "\n")})
	}
	p.value(document.Content[0], object, h.root, 1, nil)
	for i := range r.Lines {
		if r.Lines[i].Write == nil {
			r.Lines[i].Write = r.Lines[max(i-1, 0)].Write
		}
	}
	return nil
}

// printer walks through an object and its YAML.
type printer struct {
	*Result
	at     []int // the index in Lines of each line as YAML counts them: U+2028 and U+2029 end one too
	hidden Point
	unsure map[*Write]*Write // for redacted values that may have changed later
}

// value notes a value that begins on a line of y.
func (p *printer) value(y *yaml.Node, v any, n *node, line int, path []byte) {
	w := n.write
	parent, children := node{kind: '{'}, y.Content
	tooDeep := y.Style&yaml.FlowStyle != 0 && len(children) > 0 // one value
	var whole []byte
	if tooDeep {
		whole, children = compact(v), nil
	}
	if (v == redacted || bytes.Contains(whole, []byte(`"`+redacted+`"`))) && w.Seq < p.hidden.Seq {
		if p.unsure[w] == nil {
			p.unsure[w] = &Write{Seq: p.hidden.Seq, Time: p.hidden.Time, Origin: Between, After: w.point()}
		}
		w = p.unsure[w]
	}
	p.Lines[p.at[min(line, len(p.at))-1]].Write = w
	if tooDeep {
		p.Fields = append(p.Fields, Field{Path: string(path), Value: whole, Write: w})
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for i := 0; i+1 < len(children); i += 2 {
			key := children[i].Value
			child := n.members[key]
			if child == nil { // apiVersion and kind
				child = n
			}
			p.value(children[i+1], v[key], child, children[i].Line, parent.appendStep(path, key, child))
		}
	case []any:
		parent.kind = '['
		for i, child := range n.elements[:min(len(children), len(n.elements), len(v))] {
			p.value(children[i], v[i], child, children[i].Line, parent.appendStep(path, strconv.Itoa(i), child))
		}
	}
	if len(children) == 0 {
		p.Fields = append(p.Fields, Field{Path: string(path), Value: encode(v), Write: w})
	}
}

const redacted = "REDACTED"

// compact returns a value as JSON.
func compact(v any) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it was decoded from JSON
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'})
}

// encode returns a scalar or what is empty as JSON.
func encode(v any) []byte {
	switch v := v.(type) {
	case string:
		return append(rawjson.AppendEscaped([]byte{'"'}, v), '"')
	case json.Number:
		return []byte(v)
	case bool:
		return strconv.AppendBool(nil, v)
	case map[string]any:
		return []byte("{}")
	case []any:
		return []byte("[]")
	}
	return []byte("null")
}
