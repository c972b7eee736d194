package answer

import (
	"fmt"
	"strconv"
	"strings"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/rawjson"
)

// Path is a place in objects, step by step: keys, and for elements of lists their number, the value of their key (such
// as a container's name) or *.
type Path []string

// ParsePath reads spec.template.spec.containers[web].image, with quotes around a key that has dots: data["log.level"];
// or a JSON pointer.
func ParsePath(text string) (Path, error) {
	if rest, ok := strings.CutPrefix(text, "/"); ok {
		var p Path
		for step := range strings.SplitSeq(rest, "/") {
			p = append(p, string(rawjson.Unescaped([]byte(step))))
		}
		return p, nil
	}
	var p Path
	for rest := strings.TrimPrefix(text, "."); rest != ""; {
		switch {
		case rest[0] == '[':
			inside, behind, ok := strings.Cut(rest[1:], "]")
			if quoted, is := strings.CutPrefix(rest[1:], `"`); is {
				inside, behind, ok = strings.Cut(quoted, `"]`)
			}
			if !ok || inside == "" {
				return nil, fmt.Errorf("%q is not a field; write e.g. spec.replicas, containers[web].image or "+
					"data[\"log.level\"]", text)
			}
			p, rest = append(p, inside), strings.TrimPrefix(behind, ".")
		default:
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return nil, fmt.Errorf("%q is not a field; write e.g. spec.replicas, containers[web].image or "+
					"data[\"log.level\"]", text)
			}
			p, rest = append(p, rest[:end]), strings.TrimPrefix(rest[end:], ".")
		}
	}
	return p, nil
}

// touched reports whether one of the operations that made an object changed something at the path, below or above it.
func (p Path) touched(operations, object []byte) bool {
	for op := range rawjson.Elements(operations) {
		v := rawjson.Pick(op, "path", "old", "value")
		pointer := string(rawjson.Unquote(nil, rawjson.Inside(v[0])))
		cut := v[1] == nil && v[2] == nil // of a truncated line
		if (v[1] != nil || cut) && p.at(pointer, object, v[1]) || v[2] != nil && p.at(pointer, object, v[2]) {
			return true
		}
	}
	return false
}

// appendAdded appends to the inside of a list of operations those that would add what a value, which is at a pointer,
// has at the path.
func (p Path) appendAdded(ops []byte, pointer string, value []byte) []byte {
	if len(p) == 0 {
		if len(ops) > 0 {
			ops = append(ops, ',')
		}
		return fmt.Appendf(ops, `{"op":"add","path":"%s","value":%s}`, pointer, value)
	}
	for key, v := range rawjson.Members(value) {
		if p[0] == "*" || string(rawjson.Unquote(nil, key)) == p[0] {
			token := strings.NewReplacer("~", "~0", "/", "~1").Replace(string(rawjson.Unquote(nil, key)))
			ops = p[1:].appendAdded(ops, pointer+"/"+string(rawjson.AppendEscaped(nil, token)), v)
		}
	}
	n := 0
	for v := range rawjson.Elements(value) {
		if at := strconv.Itoa(n); p[0] == "*" || p[0] == at || changes.Name(v) == p[0] {
			ops = p[1:].appendAdded(ops, pointer+"/"+at, v)
		}
		n++
	}
	return ops
}

// at reports whether the pointer of an operation leads to the path, below or above it. changed is what is there before
// or behind the operation: what it removes is not in the object.
func (p Path) at(pointer string, object, changed []byte) bool {
	rest := strings.TrimPrefix(pointer, "/")
	at := ""
	for _, wanted := range p {
		if rest == "" {
			return true // above it
		}
		var step string
		step, rest, _ = strings.Cut(rest, "/")
		at += "/" + step
		key := string(rawjson.Unescaped([]byte(step)))
		if key == wanted || wanted == "*" {
			continue
		}
		if !rawjson.IsIndex([]byte(step)) {
			return false
		}
		element := changed
		if rest != "" {
			element = rawjson.At(object, []byte(at))
		}
		if name := changes.Name(element); name == "" || name != wanted {
			return false
		}
	}
	return true
}
