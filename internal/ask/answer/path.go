package answer

import (
	"fmt"
	"strconv"
	"strings"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/rawjson"
)

// Path is a place in objects: an element of a list is named by its position or by the value of its key, such as a
// container's name.
type Path []fieldpath.Step

// ParsePath reads what fieldpath.ParseAny does.
func ParsePath(text string) (Path, error) {
	p, err := fieldpath.ParseAny(text)
	if err != nil {
		return nil, fmt.Errorf(
			"%q is not a field: %w; write e.g. spec.replicas, containers[web].image or data[\"log.level\"]", text, err,
		)
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
		if key = rawjson.Unquote(nil, key); p[0].Each || string(key) == p[0].Key {
			token := rawjson.AppendEscaped(nil, string(fieldpath.Escaped(key)))
			ops = p[1:].appendAdded(ops, pointer+"/"+string(token), v)
		}
	}
	n := 0
	for v := range rawjson.Elements(value) {
		if at := strconv.Itoa(n); p[0].Each || p[0].Key == at || p[0].Key == changes.Name(v) {
			ops = p[1:].appendAdded(ops, pointer+"/"+at, v)
		}
		n++
	}
	return ops
}

// at reports whether the pointer of an operation leads to the path, below or above it. changed is what is there before
// or after the operation: what it removes is not in the object.
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
		if wanted.Each || string(fieldpath.Unescaped([]byte(step))) == wanted.Key {
			continue
		}
		if !rawjson.IsIndex([]byte(step)) {
			return false
		}
		element := changed
		if rest != "" {
			element = rawjson.At(object, []byte(at))
		}
		if name := changes.Name(element); name == "" || name != wanted.Key {
			return false
		}
	}
	return true
}
