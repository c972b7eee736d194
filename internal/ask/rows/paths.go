package rows

import (
	"bytes"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/host/terminal"
)

// maxSteps is how many steps of a path are shown. Each is looked for in the object.
const maxSteps = 100

// appendPath appends the change's JSON Pointer as the config writes paths. Elements of lists are named by their keys
// where those are known, else by their positions. named reports whether the path ends with the value itself, as in
// finalizers[example.com/keep].
func (c *Change) appendPath(dst, object []byte, how brevity) (text []byte, named bool) {
	if len(c.path) == 0 {
		return append(dst, "object"...), false
	}
	if c.path[0] != '/' { // no pointer
		return terminal.AppendText(dst, c.path), false
	}
	start := 0
	if how > inFull {
		start = startOf(c.path)
	}
	if how == briefest {
		if end := bytes.LastIndexByte(c.path[:bytes.LastIndexByte(c.path, '/')], '/'); end > start {
			dst, start = append(dst, terminal.Ellipsis...), end
		}
	}
	path := dst[len(dst):]
	for at, steps := start, 0; at < len(c.path); steps++ {
		if steps == maxSteps {
			return append(append(dst, path...), terminal.Ellipsis...), false
		}
		end := len(c.path)
		if n := bytes.IndexByte(c.path[at+1:], '/'); n >= 0 {
			end = at + 1 + n
		}
		step, key := c.path[at+1:end], []byte(nil)
		list := rawjson.IsIndex(step) || string(step) == "-"
		if named = false; list {
			parent := rawjson.At(object, c.path[:at])
			list = len(parent) == 0 || parent[0] != '{'
			if list {
				key, named = c.keyOf(object, end)
			}
			if named && len(parent) == 0 { // it may be no list
				key, named = nil, false
			}
		}
		if i := bytes.LastIndex(step, []byte("~1")); i > 0 && how >= briefer {
			step = append([]byte(terminal.Ellipsis), step[i:]...)
		}
		begin := len(path) + len("[")
		if path = appendStep(path, step, key, list); key != nil && how >= briefer {
			path = append(terminal.CutMiddle(path[:len(path)-1], begin, maxKey), ']')
		}
		at = end
	}
	return append(dst, path...), named
}

// startOf returns where a pointer begins to say something that its object's kind does not.
func startOf(pointer []byte) int {
	const template, metadata = "/template/spec", "/metadata"
	if i := bytes.Index(pointer, []byte(template+"/")); i >= 0 && bytes.HasPrefix(pointer, []byte("/spec/")) {
		return i + len(template)
	}
	if i := bytes.Index(pointer, []byte(metadata+"/")); i == 0 || i > 0 && bytes.HasPrefix(pointer, []byte("/spec/")) {
		return i + len(metadata)
	}
	return 0
}

// keyOf returns the inside of the key of the element that the first end bytes of the change's pointer lead to, nil
// where it is not known. all reports whether the key is all that the element is.
func (c *Change) keyOf(object []byte, end int) (key []byte, all bool) {
	element := c.now
	switch {
	case end < len(c.path):
		element = rawjson.At(object, c.path[:end])
	case string(c.op) == "remove":
		element = c.old
	case string(c.op) == "replace" && !bytes.Equal(changes.Key(c.old), changes.Key(c.now)):
		return nil, false
	}
	if len(element) == 0 {
		return nil, false
	}
	value := element
	if element[0] == '{' {
		if value = changes.Key(element); value == nil { // an endpoint of an EndpointSlice
			target := rawjson.Pick(element, "targetRef")
			name := rawjson.Pick(target[0], "name")
			value = name[0]
		}
	} else if all = string(c.op) != "replace" && end == len(c.path) && len(element) <= maxValue; !all {
		return nil, false
	}
	inside := rawjson.Inside(value)
	if inside == nil && element[0] == '{' {
		inside = value // a number
	}
	return inside, all
}

// appendStep appends a step of a path. key is what names an element of a list, nil where its position must do.
func appendStep(path, step, key []byte, list bool) []byte {
	var buf [64]byte
	switch {
	case key != nil:
		return fieldpath.AppendElement(path, string(rawjson.Unquote(buf[:0], key)))
	case list:
		return fieldpath.AppendElement(path, string(step))
	}
	return fieldpath.AppendKey(path, string(fieldpath.Unescaped(rawjson.Unquote(buf[:0], step))))
}
