package invariant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Changes checks what one stream's lines say of what changed: applied to the object of the line before, it gives the
// line's own. It takes a MODIFIED line without changes for a fault, unless the object is the same, or the version before
// cannot be known: behind a gap that came from lost files, and of what a list shows twice.
func Changes(lines []Line) error {
	type known struct {
		uid     string
		object  any
		lost    bool // of the version before nothing may be known
		relists int  // in which it was told of last
	}
	var (
		f       faults
		objects = make(map[string]*known)
		relists int
	)
	for i := range lines {
		l := &lines[i]
		key := l.Namespace + "/" + l.Name
		switch l.Type {
		case Gap:
			relists++
			for _, k := range objects {
				k.lost = k.lost || l.Reason == CheckpointLost || l.Reason == JournalTruncated
			}
		case Deleted:
			delete(objects, key)
		case Added, Modified:
			now, err := untyped(l.Object)
			if err != nil {
				return fmt.Errorf("%s: %w", l.Where, err)
			}
			k, list := objects[key], l.fields["changes"]
			objects[key] = &known{uid: l.UID, object: now, relists: relists}
			switch {
			case l.Type == Added && list != nil:
				f.at(l, "ADDED with changes %s", list)
			case l.Type == Added:
			case k == nil || k.uid != l.UID:
				f.at(l, "MODIFIED of what the reader does not know")
			case list == nil:
				again := l.Origin != FromWatch && k.relists == relists
				if !k.lost && !again && !reflect.DeepEqual(k.object, now) {
					f.at(l, "no changes")
				}
			default:
				got, err := Patch(k.object, list)
				if err != nil {
					f.at(l, "changes %.500s: %v", list, err)
				} else if !reflect.DeepEqual(got, now) {
					f.at(l, "changes %.500s give %.500v", list, got)
				}
			}
			objects[key].object, err = untyped(l.Object) // Patch may have taken parts of it
			if err != nil {
				return err
			}
		}
	}
	return f.err()
}

// untyped decodes an object less its kind and apiVersion, which a list's items may lack.
func untyped(b []byte) (any, error) {
	v, err := decode(b)
	if o, ok := v.(map[string]any); ok {
		delete(o, "kind")
		delete(o, "apiVersion")
	}
	return v, err
}

// operation is one element of a list of changes, decoded.
type operation struct {
	Op, Path   string
	Old, Value json.RawMessage
}

// Patch applies a list of changes to a decoded object as RFC 6902 has it, and checks the old values and that every
// operation has what it must have. The object is changed; numbers in it are json.Number.
func Patch(doc any, list []byte) (any, error) {
	var raw []map[string]json.RawMessage
	if err := json.Unmarshal(list, &raw); err != nil {
		return nil, err
	}
	for n, r := range raw {
		var o operation
		one, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(one, &o); err != nil {
			return nil, err
		}
		have := slices.Sorted(maps.Keys(r))
		want, ok := map[string][]string{
			"add": {"op", "path", "value"}, "remove": {"old", "op", "path"}, "replace": {"old", "op", "path", "value"},
		}[o.Op]
		if !ok || !slices.Equal(have, want) {
			return nil, fmt.Errorf("operation %d: %q with %v", n, o.Op, have)
		}
		tokens := strings.Split(o.Path, "/")
		if tokens[0] != "" {
			return nil, fmt.Errorf("operation %d: path %q", n, o.Path)
		}
		for i, t := range tokens {
			tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
		}
		if doc, err = apply(doc, tokens[1:], o); err != nil {
			return nil, fmt.Errorf("operation %d, %s %q: %w", n, o.Op, o.Path, err)
		}
	}
	return doc, nil
}

// apply returns v with an operation done at a path below it.
func apply(v any, path []string, o operation) (any, error) {
	old := func(v any) error {
		if want, err := decode(o.Old); err != nil || !reflect.DeepEqual(v, want) {
			return fmt.Errorf("old is %s, but there is %v", o.Old, v)
		}
		return nil
	}
	value, _ := decode(o.Value) // which Unmarshal has read
	if len(path) == 0 {
		if o.Op != "replace" {
			return nil, fmt.Errorf("not for a root")
		}
		return value, old(v)
	}
	switch c := v.(type) {
	case map[string]any:
		child, ok := c[path[0]]
		if ok == (len(path) == 1 && o.Op == "add") {
			return nil, fmt.Errorf("member %q there: %v", path[0], ok)
		}
		switch {
		case len(path) > 1:
			var err error
			c[path[0]], err = apply(child, path[1:], o)
			return c, err
		case o.Op == "remove":
			delete(c, path[0])
			return c, old(child)
		case o.Op == "replace":
			c[path[0]] = value
			return c, old(child)
		}
		c[path[0]] = value
		return c, nil
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || strconv.Itoa(i) != path[0] {
			return nil, fmt.Errorf("index %q", path[0])
		}
		insert := len(path) == 1 && o.Op == "add"
		if i < 0 || i > len(c) || i == len(c) && !insert {
			return nil, fmt.Errorf("index %d of %d", i, len(c))
		}
		switch {
		case insert:
			return slices.Insert(c, i, value), nil
		case len(path) > 1:
			c[i], err = apply(c[i], path[1:], o)
			return c, err
		}
		if err := old(c[i]); err != nil {
			return nil, err
		}
		if o.Op == "remove" {
			return slices.Delete(c, i, i+1), nil
		}
		c[i] = value
		return c, nil
	}
	return nil, fmt.Errorf("nothing there")
}

// decode keeps numbers as they are written.
func decode(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}
