package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document is the config file as it is read: the YAML tree is walked along the Config type, and what fits goes into
// values. viper would lower-case the keys and lose the lines, so every fault of the text is found here.
type document struct {
	src    *source
	values map[string]any // for viper; holds only values of the right type
	faults Faults
	broken bool // not readable as one YAML mapping: nothing else is reported
	nodes  int  // visited so far; aliases can make a small file large
}

// maxNodes bounds the walk: far more keys and items than anyone writes, far fewer than aliases can make.
const maxNodes = 1 << 16

// read walks a whole file. It sets broken where the file cannot be walked.
func (d *document) read(data []byte) {
	root, line, err := parse(data)
	if err == nil && root.Kind != yaml.MappingNode {
		line, err = root.Line, errors.New("is "+kindOf(root)+"; a config is keys and values, e.g. resources: [pods]")
	}
	if err != nil {
		d.broken = true
		d.faults = Faults{{File: d.src.file, Line: line, Msg: err.Error()}}
		return
	}
	d.values = d.mapping("", root, reflect.TypeFor[Config]())
}

// parse returns the root of the one document in data. An error comes with its line, 0 where there is none.
func parse(data []byte) (root *yaml.Node, line int, err error) {
	if !utf8.Valid(data) {
		return nil, 0, errors.New("is not UTF-8 text; save the file as UTF-8")
	}
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return yamlFault(err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, second.Line, errors.New("a second YAML document begins; one file holds one config, drop the --- line")
	case !errors.Is(err, io.EOF):
		return yamlFault(err)
	case len(doc.Content) == 0 || isNull(doc.Content[0]):
		return nil, 0, errors.New("is empty; it needs at least resources, e.g. resources: [pods]")
	}
	return resolve(doc.Content[0]), 0, nil
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlFault separates the parser's message from its line, and adds what is most often behind it: the parser knows
// nothing of globs and expressions.
func yamlFault(err error) (*yaml.Node, int, error) {
	msg, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if m := yamlLine.FindStringSubmatchIndex(msg); m != nil {
		if n, err := strconv.Atoi(msg[m[2]:m[3]]); err == nil {
			line, msg = n, msg[:m[0]]+msg[m[1]:]
		}
	}
	for _, r := range []struct{ about, remedy string }{
		{"cannot start any token", "; indent with spaces, not tabs, and quote values that begin with a special character"},
		{"expected alphabetic or numeric character", "; put what begins with * into quotes"},
		{"unknown anchor", "; put what begins with * into quotes"},
		{"mapping values are not allowed", "; put a value that has a colon and a space in it into quotes"},
	} {
		if strings.Contains(msg, r.about) {
			msg += r.remedy
			break
		}
	}
	return nil, line, errors.New("not valid YAML: " + msg)
}

func (d *document) fault(node *yaml.Node, path, format string, args ...any) {
	d.src.faulted[path] = true
	entry, field := splitPath(path)
	d.faults = append(d.faults, Fault{File: d.src.file, Line: node.Line, Entry: entry, Field: field, Msg: fmt.Sprintf(format, args...)})
}

// tooMany counts one key or item. At the limit it gives up on the document, with this as its only fault.
func (d *document) tooMany(node *yaml.Node, path string) bool {
	if d.nodes++; d.nodes == maxNodes {
		d.broken, d.faults = true, nil
		d.fault(node, path, "the file comes to more than %d keys and items, its aliases counted; is this the config?", maxNodes)
	}
	return d.broken
}

// splitPath splits resources[2].namespaces[0] into resources[2] and namespaces[0].
func splitPath(path string) (entry, field string) {
	i := strings.IndexByte(path, ']')
	if i < 0 {
		return "", path
	}
	return path[:i+1], strings.TrimPrefix(path[i+1:], ".")
}

// mapping reads a mapping into the keys of a struct type. path is "" at the top.
func (d *document) mapping(path string, node *yaml.Node, t reflect.Type) map[string]any {
	values := map[string]any{}
	seen := map[string]int{}
	known := keysOf(t)
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], resolve(node.Content[i+1])
		at := strings.TrimPrefix(path+"."+oneLine(name.Value), ".")
		if d.tooMany(name, at) {
			return values
		}
		k, ok := known.find(name.Value)
		line, twice := seen[name.Value]
		switch {
		case name.Kind != yaml.ScalarNode:
			d.fault(name, path, "has a key that is not plain text; known here: %s", known)
		case !ok:
			d.fault(name, at, "%s", known.unknown(name.Value))
		case twice:
			d.fault(name, at, "is set twice, first on line %d; keep one", line)
		default:
			seen[name.Value] = name.Line
			d.src.lines[at] = name.Line
			if v, ok := d.value(at, name, value, k); ok {
				values[name.Value] = v
			}
		}
	}
	return values
}

var durationType = reflect.TypeFor[time.Duration]()

// value reads the value of a key. It reports false where there is nothing to take: after a fault, and for a section
// with nothing in it, which is what remains when a user comments its keys out.
func (d *document) value(path string, name, node *yaml.Node, k key) (any, bool) {
	t := k.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch off := k.tag.Get("off"); {
	case !isNull(node):
	case t.Kind() == reflect.Struct:
		return nil, false
	case path == "resources":
		d.fault(name, path, "%s", noResources)
		return nil, false
	case off != "":
		d.fault(name, path, "has no value; write %s for none, or leave the key out", off)
		return nil, false
	default:
		d.fault(name, path, "has no value; give it one or leave the key out")
		return nil, false
	}
	switch {
	case t.Kind() == reflect.Struct:
		if node.Kind != yaml.MappingNode {
			d.fault(name, path, "is %s; it takes the keys %s", kindOf(node), keysOf(t))
			return nil, false
		}
		return d.mapping(path, node, t), true
	case t.Kind() == reflect.Slice:
		if node.Kind != yaml.SequenceNode {
			d.fault(name, path, "is %s; it takes a list, e.g. %s", kindOf(node), k.tag.Get("eg"))
			return nil, false
		}
		return d.list(path, node, t.Elem()), true
	}
	v, msg := scalar(node, t, k.tag)
	if msg != "" {
		d.fault(node, path, "%s", msg)
		return nil, false
	}
	return v, true
}

// scalar returns a value that is neither list nor section, or what is wrong with it. Whether it is within its range is
// for Validate to check.
func scalar(node *yaml.Node, t reflect.Type, tag reflect.StructTag) (v any, msg string) {
	isScalar := node.Kind == yaml.ScalarNode
	switch {
	case t == durationType:
		if !isScalar {
			return nil, fmt.Sprintf("is %s; it takes a duration such as %s", kindOf(node), tag.Get("eg"))
		}
		v, err := time.ParseDuration(node.Value)
		if err != nil {
			return nil, fmt.Sprintf("%q is not a duration; write a number with its unit, such as %s", node.Value, tag.Get("eg"))
		}
		return v, ""
	case t.Kind() == reflect.Int64: // every one is a number of bytes
		if !isScalar {
			return nil, "is " + kindOf(node) + "; it takes a size such as 100MiB"
		}
		v, ok := parseSize(node.Value)
		if !ok {
			return nil, fmt.Sprintf("%q is not a size; write a whole number with its unit, such as 100MiB, 500MB or 64Ki, or 0 for no limit", node.Value)
		}
		return v, ""
	case t.Kind() == reflect.Bool:
		var b bool
		if !isScalar || node.ShortTag() != "!!bool" || node.Decode(&b) != nil {
			return nil, "is " + kindOf(node) + "; write true or false"
		}
		return b, ""
	case t.Kind() == reflect.Int:
		var n int
		if !isScalar || node.ShortTag() != "!!int" || node.Decode(&n) != nil {
			return nil, "is " + kindOf(node) + "; write a whole number such as 10"
		}
		return n, ""
	}
	switch takes := tag.Get("takes"); {
	case isScalar && node.ShortTag() == "!!str":
		return node.Value, ""
	case strings.HasPrefix(node.Tag, "!") && !strings.HasPrefix(node.Tag, "!!"):
		return nil, "begins with !, which is a tag in YAML; put the text into quotes"
	case isScalar && takes != "":
		return nil, fmt.Sprintf("is %s; it takes %s", kindOf(node), takes)
	case isScalar:
		return nil, fmt.Sprintf("is %s; it takes text, put it in quotes: %q", kindOf(node), node.Value)
	}
	return nil, "is " + kindOf(node) + "; it takes text"
}

// list reads a list of texts or of sections. An element that cannot be read leaves an empty one behind, so that the
// numbers of the others stay as the user counts them.
func (d *document) list(path string, node *yaml.Node, elem reflect.Type) []any {
	values := make([]any, 0, len(node.Content))
	for i, item := range node.Content {
		line := item.Line
		item = resolve(item)
		at := fmt.Sprintf("%s[%d]", path, i)
		d.src.lines[at] = line
		if d.tooMany(item, at) {
			return values
		}
		if elem.Kind() == reflect.Struct {
			values = append(values, d.entry(at, item, elem))
			continue
		}
		v, msg := scalar(item, elem, "")
		if msg != "" {
			d.fault(item, at, "%s", msg)
			v = ""
		}
		values = append(values, v)
	}
	return values
}

// entry reads one element of a list of sections. A resource may be written as its name alone.
func (d *document) entry(path string, node *yaml.Node, t reflect.Type) map[string]any {
	short := t == reflect.TypeFor[Resource]()
	switch {
	case node.Kind == yaml.MappingNode:
		return d.mapping(path, node, t)
	case short && node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str":
		d.src.short[path] = true
		return map[string]any{"resource": node.Value}
	case short:
		d.fault(node, path, "is %s; write a name such as pods, or resource: pods with keys below", kindOf(node))
	default:
		d.fault(node, path, "is %s; it takes the keys %s", kindOf(node), keysOf(t))
	}
	return map[string]any{}
}

func resolve(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// kindOf names what a value is, for use within a sentence.
func kindOf(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a set of keys"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
	default:
		return "nothing that can be read"
	}
	switch node.ShortTag() {
	case "!!null":
		return "empty"
	case "!!str":
		return fmt.Sprintf("the text %q", node.Value)
	case "!!int", "!!float":
		return "the number " + node.Value
	case "!!bool":
		return "the boolean " + node.Value
	case "!!timestamp":
		return "the date " + node.Value
	default:
		return "a value tagged " + node.Tag
	}
}
