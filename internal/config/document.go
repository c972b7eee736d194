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

// document is the config file as it is read: the YAML tree is walked beside the Config type, and what fits goes into
// values. viper would lower-case the keys and forget the lines, so everything a user should hear about is found here.
type document struct {
	src    *source
	values map[string]any // what viper gets; holds only what has the right shape
	faults Faults
	broken bool // not readable as one YAML mapping: nothing else can be said
	nodes  int  // visited so far; aliases can make a small file large
}

// maxNodes bounds the walk: far more keys and items than anyone writes, far fewer than aliases can make.
const maxNodes = 1 << 16

// read walks a whole file. It never fails as a whole unless broken is set.
func (d *document) read(data []byte) {
	root, err := parse(data)
	if err != nil {
		d.broken = true
		line, msg := yamlError(err)
		d.faults = append(d.faults, Fault{File: d.src.file, Line: line, Msg: msg})
		return
	}
	if root.Kind != yaml.MappingNode {
		d.broken = true
		d.faults = append(d.faults, Fault{File: d.src.file, Line: root.Line,
			Msg: "is " + kindOf(root) + "; a config is keys and values, e.g. resources: [pods]"})
		return
	}
	d.values = d.mapping("", root, reflect.TypeFor[Config]())
}

// parse returns the root of the one document in data.
func parse(data []byte) (*yaml.Node, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8 text; save the file as UTF-8")
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("is empty; it needs at least resources, e.g. resources: [pods]")
		}
		return nil, err
	}
	var next yaml.Node
	if err := dec.Decode(&next); err == nil {
		return nil, &secondDocument{line: next.Line}
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(doc.Content) == 0 || isNull(doc.Content[0]) {
		return nil, errors.New("is empty; it needs at least resources, e.g. resources: [pods]")
	}
	return resolve(doc.Content[0]), nil
}

type secondDocument struct{ line int }

func (*secondDocument) Error() string {
	return "a second YAML document begins; one file holds one config, drop the --- line"
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlError takes the parser's message apart, so that its line stands where all lines stand.
func yamlError(err error) (line int, msg string) {
	var second *secondDocument
	if errors.As(err, &second) {
		return second.line, err.Error()
	}
	msg, isYAML := strings.CutPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatchIndex(msg); m != nil {
		if n, err := strconv.Atoi(msg[m[2]:m[3]]); err == nil {
			line, msg = n, msg[:m[0]]+msg[m[1]:]
		}
	}
	if isYAML {
		msg = "not valid YAML: " + msg
		msg += yamlRemedy(msg)
	}
	return line, msg
}

// yamlRemedy names what is most often behind a message of the parser, which knows nothing of globs and expressions.
func yamlRemedy(msg string) string {
	switch {
	case strings.Contains(msg, "cannot start any token"):
		return "; indent with spaces, not tabs, and quote values that begin with a special character"
	case strings.Contains(msg, "expected alphabetic or numeric character"), strings.Contains(msg, "unknown anchor"):
		return "; put what begins with * into quotes"
	case strings.Contains(msg, "mapping values are not allowed"):
		return "; put a value that has a colon and a space in it into quotes"
	}
	return ""
}

func (d *document) fault(node *yaml.Node, path, format string, args ...any) {
	d.src.faulted[path] = struct{}{}
	entry, field := splitPath(path)
	d.faults = append(d.faults, Fault{File: d.src.file, Line: node.Line, Entry: entry, Field: field, Msg: fmt.Sprintf(format, args...)})
}

// tooMany counts one key or item, and gives the whole document up at the limit, with this as its only fault.
func (d *document) tooMany(node *yaml.Node, path string) bool {
	if d.nodes++; d.nodes == maxNodes {
		d.broken, d.faults = true, nil
		d.fault(node, path, "the file comes to more than %d keys and items, its aliases counted; is this the config?", maxNodes)
	}
	return d.broken
}

// splitPath takes resources[2].namespaces[0] apart into resources[2] and namespaces[0].
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
	keys := keysOf(t)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolve(node.Content[i+1])
		at := join(path, oneLine(key.Value))
		if d.tooMany(key, at) {
			return values
		}
		if key.Kind != yaml.ScalarNode {
			d.fault(key, path, "has a key that is no plain word; known here: %s", strings.Join(names(keys), ", "))
			continue
		}
		field, known := keys[key.Value]
		if !known {
			d.fault(key, at, "%s", unknownKey(key.Value, names(keys)))
			continue
		}
		if line, twice := seen[key.Value]; twice {
			d.fault(key, at, "stands here a second time, first on line %d; keep one", line)
			continue
		}
		seen[key.Value] = key.Line
		d.src.lines[at] = key.Line
		if v, ok := d.value(at, key, value, field); ok {
			values[key.Value] = v
		}
	}
	return values
}

// noneForm is how the keys are written that may be turned off.
var noneForm = map[string]string{"listen": `""`, "checkpoint.path": `""`, "dropFields": "[]"}

// value reads one value of the given type. It reports false where there is nothing to take: after a fault, and for a
// section with nothing in it, which is what remains when a user comments its keys out.
func (d *document) value(path string, key, node *yaml.Node, t reflect.Type) (any, bool) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isNull(node) {
		if t.Kind() == reflect.Struct {
			return nil, false
		}
		switch {
		case path == "resources":
			d.fault(key, path, "%s", noResources)
		case noneForm[path] != "":
			d.fault(key, path, "has no value; write %s for none, or leave the key out", noneForm[path])
		default:
			d.fault(key, path, "has no value; give it one or leave the key out")
		}
		return nil, false
	}
	switch {
	case t == durationType:
		return d.duration(path, node)
	case t.Kind() == reflect.Struct:
		if node.Kind != yaml.MappingNode {
			d.fault(key, path, "is %s; it takes the keys %s", kindOf(node), strings.Join(names(keysOf(t)), ", "))
			return nil, false
		}
		return d.mapping(path, node, t), true
	case t.Kind() == reflect.Slice:
		return d.list(path, key, node, t.Elem())
	case t.Kind() == reflect.Bool:
		var b bool
		if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!bool" || node.Decode(&b) != nil {
			d.fault(node, path, "is %s; write true or false", kindOf(node))
			return nil, false
		}
		return b, true
	case t.Kind() == reflect.Int64: // every one is a number of bytes
		return d.size(path, node)
	case t.Kind() == reflect.Int:
		return d.count(path, node)
	default:
		return d.text(path, node)
	}
}

func (d *document) text(path string, node *yaml.Node) (any, bool) {
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" {
		return node.Value, true
	}
	if strings.HasPrefix(node.Tag, "!") && !strings.HasPrefix(node.Tag, "!!") {
		d.fault(node, path, "begins with !, which is a tag in YAML; put the text into quotes")
	} else if path == "listen" && node.Kind == yaml.ScalarNode {
		d.fault(node, path, `is %s; it takes host:port in quotes, such as ":8080"`, kindOf(node))
	} else if node.Kind == yaml.ScalarNode {
		d.fault(node, path, "is %s; it takes text, put it in quotes: %q", kindOf(node), node.Value)
	} else {
		d.fault(node, path, "is %s; it takes text", kindOf(node))
	}
	return nil, false
}

var durationType = reflect.TypeFor[time.Duration]()

func (d *document) duration(path string, node *yaml.Node) (any, bool) {
	example := "30s, 1m or 500ms"
	if path == "output.maxAge" {
		example = "168h for a week"
	}
	if node.Kind != yaml.ScalarNode {
		d.fault(node, path, "is %s; it takes a duration such as %s", kindOf(node), example)
		return nil, false
	}
	v, err := time.ParseDuration(node.Value)
	// ParseDuration takes a bare 0, which is as good as any other zero: the range is for Validate to judge.
	if err != nil {
		d.fault(node, path, "%q is not a duration; write a number with its unit, such as %s", node.Value, example)
		return nil, false
	}
	return v, true
}

func (d *document) size(path string, node *yaml.Node) (any, bool) {
	if node.Kind != yaml.ScalarNode {
		d.fault(node, path, "is %s; it takes a size such as 100MiB", kindOf(node))
		return nil, false
	}
	v, ok := parseSize(node.Value)
	if !ok {
		d.fault(node, path, "%q is not a size; write a whole number with its unit, such as 100MiB, 500MB or 64Ki, or 0 for no limit", node.Value)
	}
	return v, ok
}

func (d *document) count(path string, node *yaml.Node) (any, bool) {
	var n int
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!int" || node.Decode(&n) != nil {
		d.fault(node, path, "is %s; write a whole number such as 10", kindOf(node))
		return nil, false
	}
	return n, true
}

// list reads a list. An element that cannot be read leaves an empty one behind, so that the numbers of the others
// stay as the user counts them.
func (d *document) list(path string, key, node *yaml.Node, elem reflect.Type) (any, bool) {
	if node.Kind != yaml.SequenceNode {
		d.fault(key, path, "is %s; it takes a list, e.g. %s", kindOf(node), listExample(key.Value))
		return nil, false
	}
	values := make([]any, 0, len(node.Content))
	for i, item := range node.Content {
		line := item.Line
		item = resolve(item)
		at := fmt.Sprintf("%s[%d]", path, i)
		d.src.lines[at] = line
		if d.tooMany(item, at) {
			return values, true
		}
		if elem.Kind() != reflect.Struct {
			if v, ok := d.text(at, item); ok {
				values = append(values, v)
			} else {
				values = append(values, "")
			}
			continue
		}
		values = append(values, d.entry(at, item, elem))
	}
	return values, true
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
		d.fault(node, path, "is %s; it takes the keys %s", kindOf(node), strings.Join(names(keysOf(t)), ", "))
	}
	return map[string]any{}
}

// keysOf maps the keys that a section takes to the types of their values.
func keysOf(t reflect.Type) map[string]reflect.Type {
	keys := map[string]reflect.Type{}
	for f := range fieldsOf(t) {
		keys[f.key] = f.typ
	}
	return keys
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

// kindOf names what a value is, in the middle of a sentence.
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
		return "the truth value " + node.Value
	case "!!timestamp":
		return "the date " + node.Value
	default:
		return "a value tagged " + node.Tag
	}
}

func listExample(key string) string {
	switch key {
	case "resources":
		return "[pods, deployments.apps]"
	case "redact":
		return "[{resource: configmaps, fields: [data.password]}]"
	case "namespaces":
		return "[web, db]"
	case "excludeNamespaces":
		return "[kube-*]"
	case "exclude":
		return "[events, leases.coordination.k8s.io]"
	case "types":
		return "[ADDED, DELETED]"
	case "ignoreFields":
		return "[status]"
	default:
		return "[metadata.managedFields]"
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
