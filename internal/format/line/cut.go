package line

import (
	"cmp"
	"strconv"

	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/rawjson"
)

// Incomplete reports whether the line is truncated: its object, changes and event may have marks in the place of
// values, which IsCut knows, and changes may be left out.
func (l *Fields) Incomplete() bool { return string(l.values[FieldTruncated]) == "true" }

// deepest is how deep the cut values of a line are at most, and what marks them.
const deepest = 70

// Cut returns what of a truncated line's object is cut, as the config writes paths: metadata.annotations["a.b/c"]. It
// is empty for a line that is not truncated, and where the line has no object.
func (l *Fields) Cut() []string {
	if !l.Incomplete() || len(l.Object) == 0 {
		return nil
	}
	return appendCut(nil, nil, l.Object, 0)
}

// appendCut appends the paths of what is cut in a value. A container of which a part is left out is
// named itself, the object as "object".
func appendCut(dst []string, path, value []byte, depth int) []string {
	if inside := rawjson.Inside(value); inside != nil {
		if IsCut(rawjson.Unquote(nil, inside)) {
			dst = append(dst, string(path))
		}
		return dst
	}
	if depth == deepest {
		return dst
	}
	for key, member := range rawjson.Members(value) {
		name := string(rawjson.Unquote(nil, key))
		if name == LeftOut && IsCut(rawjson.Unquote(nil, rawjson.Inside(member))) {
			dst = append(dst, cmp.Or(string(path), "object"))
			continue
		}
		dst = appendCut(dst, fieldpath.AppendKey(path, name), member, depth+1)
	}
	n := 0
	for element := range rawjson.Elements(value) {
		at := fieldpath.AppendElement(path, strconv.Itoa(n))
		if inside := rawjson.Inside(element); inside != nil && IsLeftOut(rawjson.Unquote(nil, inside)) {
			at = path
		}
		dst = appendCut(dst, at, element, depth+1)
		n++
	}
	return dst
}
