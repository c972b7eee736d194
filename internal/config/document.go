package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"kubejournal/internal/host/suggest"
)

// document is the config file as it is read: the YAML tree is walked along the Config type, and what fits goes into
// values. viper would lower-case the keys and lose the lines, so every fault of the text is found here.
type document struct {
	src    source
	values map[string]any // for viper; holds only values of the right type
	faults Faults
	broken bool // not readable as one YAML mapping: nothing else is reported
	nodes  int  // visited so far; aliases can make a small file large
	env    Env
}

// maxNodes bounds the walk: far more keys and items than anyone writes, far fewer than aliases can make.
const maxNodes = 1 << 16

// read walks a whole file. It sets broken where the file cannot be walked.
func (d *document) read(data []byte) {
	root, line, err := parse(data)
	if err != nil {
		d.broken = true
		d.faults = Faults{{File: d.src.file, Line: line, Msg: err.Error()}}
		return
	}
	d.values = d.mapping("", root, reflect.TypeFor[Config]())
}

// parse returns the root of the one document in data, a mapping. An error comes with its line, 0 where there is none.
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
		return nil, second.Line, errors.New(
			"a second YAML document begins; one file holds one config, drop the --- line",
		)
	case !errors.Is(err, io.EOF):
		return yamlFault(err)
	case len(doc.Content) == 0 || isNull(doc.Content[0]):
		return nil, 0, errors.New("is empty; it needs at least resources, e.g. resources: [pods]")
	case doc.Content[0].Kind != yaml.MappingNode:
		return nil, doc.Content[0].Line, errors.New(
			"is " + kindOf(doc.Content[0]) + "; a config is keys and values, e.g. resources: [pods]",
		)
	}
	return doc.Content[0], 0, nil
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlFault separates the parser's message from its line, and adds what is most often behind it: the parser knows
// nothing of globs and expressions.
func yamlFault(err error) (*yaml.Node, int, error) {
	msg, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = strings.Replace(msg, m[0], "", 1)
	}
	const quote = "; put what begins with * into quotes"
	for _, r := range []struct{ about, remedy string }{
		{"cannot start any token", "; indent with spaces, not tabs, and quote values that begin with a special character"},
		{"expected alphabetic or numeric character", quote},
		{"unknown anchor", quote},
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
	d.faults = append(d.faults, Fault{d.src.file, node.Line, path, fmt.Sprintf(format, args...)})
}

// tooMany counts one key or item. At the limit it gives up on the document, with this as its only fault.
func (d *document) tooMany(node *yaml.Node, path string) bool {
	if d.nodes++; d.nodes == maxNodes {
		d.broken, d.faults = true, nil
		d.fault(
			node, path, "the file comes to more than %d keys and items, its aliases counted; is this the config?",
			maxNodes,
		)
	}
	return d.broken
}

// mapping reads a mapping into the keys of a struct type. path is "" at the top.
func (d *document) mapping(path string, node *yaml.Node, t reflect.Type) map[string]any {
	values, known := map[string]any{}, keysOf(t)
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], resolve(node.Content[i+1])
		at := join(path, cmp.Or(oneLine(name.Value), `""`))
		if d.tooMany(name, at) {
			return values
		}
		key, ok := known[name.Value]
		line, twice := d.src.lines[at]
		switch why := ownKeys[name.Value]; {
		case name.Kind != yaml.ScalarNode:
			d.fault(name, path, "has a key that is not plain text; known here: %s", known)
		case !ok && why != "" && t == reflect.TypeFor[Defaults]():
			d.fault(name, at, "cannot be a default: %s; set it in the entries", why)
		case !ok:
			d.fault(name, at, "%s", known.unknown(name.Value))
		case twice:
			d.fault(name, at, "is set twice, first on line %d; keep one", line)
		default:
			d.src.lines[at] = name.Line
			if v := d.key(at, name, value, key); v != nil {
				values[name.Value] = v
			}
		}
	}
	return values
}

// key reads the value of a key. It returns nil where there is nothing to take: after a fault, and for a section with
// nothing in it, which is what remains when a user comments its keys out.
func (d *document) key(path string, name, node *yaml.Node, key reflect.StructField) any {
	off := key.Tag.Get("off")
	switch {
	case !isNull(node):
		return d.value(path, name, node, key.Type, key.Tag)
	case key.Type.Kind() == reflect.Struct:
	case path == "resources":
		d.fault(name, path, "%s", noResources)
	case off != "":
		d.fault(name, path, "has no value; write %s for none, or leave the key out", off)
	default:
		d.fault(name, path, "has no value; give it one or leave the key out")
	}
	return nil
}

// value reads a value; tag is that of its key. It returns nil after a fault. A resource may be written as its name
// alone.
func (d *document) value(path string, at, node *yaml.Node, t reflect.Type, tag reflect.StructTag) any {
	isEntry := t == reflect.TypeFor[Resource]()
	switch {
	case t.Kind() == reflect.Struct && node.Kind == yaml.MappingNode:
		return d.mapping(path, node, t)
	case t.Kind() == reflect.Slice && node.Kind == yaml.SequenceNode:
		return d.list(path, node, t.Elem())
	case isEntry && isText(node):
		d.src.short[path] = true
		return map[string]any{"resource": node.Value}
	case isEntry:
		d.fault(at, path, "is %s; write a name such as pods, or resource: pods with keys below", kindOf(node))
	case t.Kind() == reflect.Struct:
		d.fault(at, path, "is %s; it takes the keys %s", kindOf(node), keysOf(t))
	case t.Kind() == reflect.Slice:
		d.fault(at, path, "is %s; it takes a list, e.g. %s", kindOf(node), tag.Get("eg"))
	default:
		v, msg := d.scalar(node, t, tag)
		if msg != "" {
			d.fault(node, path, "%s", msg)
		}
		return v
	}
	return nil
}

// list reads a list. An element that cannot be read leaves an empty one behind, so that the numbers of the others stay
// as the user counts them.
func (d *document) list(path string, node *yaml.Node, elem reflect.Type) []any {
	values := make([]any, 0, len(node.Content))
	for i, item := range node.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.src.lines[at] = item.Line
		item = resolve(item)
		if d.tooMany(item, at) {
			return values
		}
		v := d.value(at, item, item, elem, "")
		if v == nil {
			v = reflect.Zero(elem).Interface()
		}
		values = append(values, v)
	}
	return values
}

// scalar returns a value that is neither list nor section, or what is wrong with it. Whether it is within its range is
// checked later.
func (d *document) scalar(node *yaml.Node, t reflect.Type, tag reflect.StructTag) (v any, msg string) {
	isScalar, eg, takes := node.Kind == yaml.ScalarNode, tag.Get("eg"), tag.Get("takes")
	is := "is " + kindOf(node)
	switch {
	case t == reflect.TypeFor[time.Duration]():
		if !isScalar {
			return nil, is + "; it takes a duration such as " + eg
		}
		v, ok := ParseDuration(node.Value)
		if !ok {
			return nil, fmt.Sprintf("%q is not a duration; write a number with its unit, such as %s", node.Value, eg)
		}
		return v, ""
	case t.Kind() == reflect.Int64: // every one is a number of bytes
		if !isScalar {
			return nil, is + "; it takes a size such as 100MiB"
		}
		v, ok := parseSize(node.Value)
		if !ok {
			return nil, fmt.Sprintf(
				"%q is not a size; write a whole number with its unit, such as 100MiB, 500MB or 64Ki, or 0 for no limit",
				node.Value,
			)
		}
		return v, ""
	case t.Kind() == reflect.Int && takes != "" && isText(node):
		text, msg := expandOne(node.Value, d.env)
		if msg != "" {
			return nil, msg
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Sprintf("%q is not a whole number; write one, or %s", text, takes)
		}
		return n, ""
	case t.Kind() == reflect.Bool, t.Kind() == reflect.Int:
		v := reflect.New(t)
		if isScalar && node.ShortTag() == "!!"+t.Name() && node.Decode(v.Interface()) == nil {
			return v.Elem().Interface(), ""
		}
		if t.Kind() == reflect.Bool {
			return nil, is + "; write true or false"
		}
		return nil, is + "; write a whole number such as 10"
	case isText(node):
		return node.Value, ""
	case strings.HasPrefix(node.Tag, "!") && !strings.HasPrefix(node.Tag, "!!"):
		return nil, "begins with !, which is a tag in YAML; put the text into quotes"
	case isScalar && takes != "":
		return nil, is + "; it takes " + takes
	case isScalar:
		return nil, fmt.Sprintf("%s; it takes text, put it in quotes: %q", is, node.Value)
	}
	return nil, is + "; it takes text"
}

func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

func isText(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" }

// kindOf names what a value is, for use within a sentence.
func kindOf(node *yaml.Node) string {
	kinds := map[string]string{
		"!!int": "the number ", "!!float": "the number ", "!!bool": "the boolean ", "!!timestamp": "the date ",
	}
	switch kind := kinds[node.ShortTag()]; {
	case node.Kind == yaml.MappingNode:
		return "a set of keys"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(node):
		return "empty"
	case isText(node):
		return fmt.Sprintf("the text %q", node.Value)
	case kind != "":
		return kind + node.Value
	}
	return "a value tagged " + node.Tag
}

var dayForm = regexp.MustCompile(`^([+-]?)([0-9]+)d(.*)$`)

// ParseDuration is time.ParseDuration of a text that may begin with a whole number of days, of 24 hours each.
func ParseDuration(text string) (d time.Duration, ok bool) {
	m := dayForm.FindStringSubmatch(text)
	if m == nil {
		d, err := time.ParseDuration(text)
		return d, err == nil
	}
	const day = 24 * time.Hour
	days, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil || days > int64(math.MaxInt64/day) {
		return 0, false
	}
	if m[3] != "" {
		if d, err = time.ParseDuration(m[3]); err != nil || strings.ContainsAny(m[3][:1], "+-") {
			return 0, false
		}
	}
	if d += time.Duration(days) * day; d < 0 { // beyond the largest
		return 0, false
	}
	if m[1] == "-" {
		d = -d
	}
	return d, true
}

var sizeForm = regexp.MustCompile(`^(0|[1-9][0-9]*)(([kMGT]|[KMGT]i)?B?)$`)

// sizeUnit maps what may follow a number, but for a B, to bytes.
var sizeUnit = map[string]uint64{
	"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
}

// parseSize reads a size in bytes as Kubernetes spells its quantities, in whole numbers, with or without a B after.
func parseSize(text string) (bytes int64, ok bool) {
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(m[1], 10, 64)
	unit := sizeUnit[m[3]]
	if err != nil || n > math.MaxInt64/unit {
		return 0, false
	}
	return int64(n * unit), true
}

// keys are the keys that a section of the file takes, by name.
type keys map[string]reflect.StructField

func keysOf(t reflect.Type) keys {
	all := keys{}
	for f := range t.Fields() {
		name := f.Tag.Get("mapstructure")
		if name == "" || name == "-" || t == reflect.TypeFor[Defaults]() && ownKeys[name] != "" {
			continue
		}
		all[name] = f
	}
	return all
}

func (ks keys) String() string { return strings.Join(slices.Sorted(maps.Keys(ks)), ", ") }

// unknown returns the message for a key that the section does not take, with what might have been meant.
func (ks keys) unknown(name string) string {
	if name == "<<" {
		return "merge keys are not supported; write the keys out"
	}
	if first, rest, dotted := strings.Cut(name, "."); dotted {
		if _, ok := ks[first]; ok {
			return fmt.Sprintf("unknown key; write %s: {%s: ...}", first, rest)
		}
	}
	if near := suggest.Near(name, slices.Sorted(maps.Keys(ks))); near != "" {
		return fmt.Sprintf("unknown key; did you mean %s?", near)
	}
	return "unknown key; known here: " + ks.String()
}
