package answer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"

	"kubejournal/internal/ask/yamltext"
	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/host/terminal"
)

// Lines is a format of Get: the objects of json, a line each.
const Lines = "lines"

// objects writes objects as kubectl get -o yaml or json does: several in a List, one after the other.
type objects struct {
	*Output
	out   *bufio.Writer
	json  bool
	lines bool // of JSON
	items int  // of the list; -1 where there is none
}

func newObjects(o *Output, format string) *objects {
	return &objects{
		Output: o, out: bufio.NewWriter(terminal.Raw(o.Writer)), json: format != "yaml", lines: format == Lines,
		items: -1,
	}
}

// begin begins a list.
func (o *objects) begin() {
	if o.lines {
		return
	}
	o.items = 0
	if o.json {
		_, _ = o.out.WriteString("{\n    \"apiVersion\": \"v1\",\n    \"items\": [") // Flush returns the error of any
		return
	}
	_, _ = o.out.WriteString("apiVersion: v1\nitems:")
}

// add writes an object: by itself, or as an item of the list. Its members are sorted for YAML alone. What is nested
// deeper than yamltext.MaxDepth is on one line.
func (o *objects) add(object []byte) error {
	if o.lines {
		o.write(object)
		return o.out.WriteByte('\n')
	}
	if o.json {
		first, indent, last := "", "", "\n"
		if o.items >= 0 {
			first, indent, last = "\n        ", "        ", ""
		}
		if o.items > 0 {
			first = "," + first
		}
		text := bytes.NewBufferString(first)
		if nestedDeep(object) {
			text.Write(object)
		} else if err := json.Indent(text, object, indent, "    "); err != nil {
			return fmt.Errorf("indent object: %w", err)
		}
		text.WriteString(last)
		o.write(text.Bytes())
	} else {
		if o.items == 0 {
			_ = o.out.WriteByte('\n')
		}
		if o.items >= 0 {
			object = fmt.Appendf(nil, "[%s]", object) // which has long lines broken where they are in a list
		}
		text, err := yamltext.Append(nil, object, yamltext.Options{})
		if err != nil {
			return err
		}
		o.write(text)
	}
	if o.items >= 0 {
		o.items++
	}
	return nil
}

// nestedDeep reports whether an object is nested deeper than yamltext.MaxDepth: it is written without indents, each of
// which would be longer than the one before.
func nestedDeep(object []byte) bool {
	depth, str := 0, false
	for i := 0; i < len(object); i++ {
		switch c := object[i]; {
		case c == '"':
			str = !str
		case str && c == '\\':
			i++
		case str:
		case c == '{', c == '[':
			if depth++; depth > yamltext.MaxDepth {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

// write writes whole lines; for a terminal, with escapes in the place of what it would act on.
func (o *objects) write(text []byte) {
	switch {
	case !o.Terminal:
	case o.json:
		text = safeJSON(text)
	default:
		text = terminal.AppendLines(nil, text)
	}
	_, _ = o.out.Write(text)
}

// end ends what was begun.
func (o *objects) end() error {
	switch {
	case o.items < 0:
	case o.json:
		if o.items > 0 {
			_, _ = o.out.WriteString("\n    ")
		}
		_, _ = o.out.WriteString("],\n    \"kind\": \"List\",\n    \"metadata\": {\n" +
			"        \"resourceVersion\": \"\"\n    }\n}\n")
	default:
		if o.items == 0 {
			_, _ = o.out.WriteString(" []\n")
		}
		_, _ = o.out.WriteString("kind: List\nmetadata:\n  resourceVersion: \"\"\n")
	}
	return o.out.Flush()
}

// sorted returns an object with its members in the order in which kubectl prints them.
func sorted(object []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// named returns an object with its apiVersion and kind, which servers leave out in a list.
func named(object []byte, apiVersion, kind string) []byte {
	v := rawjson.Pick(object, "apiVersion", "kind")
	if v[0] != nil && v[1] != nil || len(object) == 0 {
		return object
	}
	all := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q`, apiVersion, kind)
	for key, value := range rawjson.Members(object) {
		if string(key) != "apiVersion" && string(key) != "kind" {
			all = append(append(append(append(all, `,"`...), key...), `":`...), value...)
		}
	}
	return append(all, '}')
}
