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

// Changes checks what one stream's lines say of what changed: see ChangesCheck.
func Changes(lines []Line) error {
	var c ChangesCheck
	c.Look(lines)
	return c.Err()
}

// ChangesCheck checks what lines say of what changed, of any number of streams: applied to the object of the line
// before, it gives the line's own. It takes a MODIFIED line without changes for a fault, unless the object is the same,
// or the version before cannot be known: after a line without an object, after a gap that came from lost files, and of
// what a list shows twice. It keeps the last version of each object and nothing else. The zero value has seen nothing.
type ChangesCheck struct {
	streams map[string]*changing
	faults  faults
	lists   int // of changes, that were applied
}

// changing is what a stream's reader knows.
type changing struct {
	objects map[string]*lastSeen
	relists int
}

type lastSeen struct {
	uid     string
	object  any
	lost    bool // of the version before nothing may be known
	relists int  // in which it was told of last
}

// Look continues with later lines.
func (c *ChangesCheck) Look(lines []Line) {
	if c.streams == nil {
		c.streams = make(map[string]*changing)
	}
	for i := range lines {
		l := &lines[i]
		if l.Type == Removed || l.Type == Sealed {
			continue
		}
		s := c.streams[l.Stream]
		if s == nil {
			s = &changing{objects: make(map[string]*lastSeen)}
			c.streams[l.Stream] = s
		}
		switch l.Type {
		case Gap:
			s.relists++
			for _, k := range s.objects {
				// A server that was restored is told of before a checkpoint that was lost. A replica that takes over
				// may not know the last version that was told.
				k.lost = k.lost || l.Reason == CheckpointLost || l.Reason == JournalTruncated || l.Reason == Ahead ||
					l.Term > 1
			}
		case Deleted:
			delete(s.objects, l.Namespace+"/"+l.Name)
		case Added, Modified:
			c.look(s, l)
		}
	}
}

// look checks the line of an object that is there.
func (c *ChangesCheck) look(s *changing, l *Line) {
	key := l.Namespace + "/" + l.Name
	if l.Object == nil && l.Truncated { // what the next line is compared with is not known
		if l.fields["changes"] != nil {
			c.faults.at(l, "changes of what the line does not have")
		}
		s.objects[key] = &lastSeen{uid: l.UID, lost: true, relists: s.relists}
		return
	}
	now, err := untyped(l.Object)
	if err != nil {
		c.faults.at(l, "object: %v", err)
		return
	}
	list := l.fields["changes"]
	k := s.objects[key]
	defer func() {
		if now, err = untyped(l.Object); err == nil { // Patch may have taken parts of the other
			s.objects[key] = &lastSeen{uid: l.UID, object: now, relists: s.relists}
		}
	}()
	added := l.Type == Added || strings.HasSuffix(l.ID, "/"+Added) // as it was before Merge
	switch {
	case added && list != nil:
		c.faults.at(l, "ADDED with changes %s", list)
	case added:
	case k == nil || k.uid != l.UID:
		c.faults.at(l, "MODIFIED of what the reader does not know")
	case list == nil:
		again := l.Origin != FromWatch && k.relists == s.relists
		if !k.lost && !again && !reflect.DeepEqual(k.object, now) {
			c.faults.at(l, "no changes")
		}
	case k.lost && l.Term > 1:
	case k.object == nil:
		c.faults.at(l, "changes from what the reader does not know")
	default:
		c.lists++
		got, err := Patch(k.object, list)
		if err != nil {
			c.faults.at(l, "changes %.500s: %v", list, err)
		} else if !reflect.DeepEqual(got, now) {
			c.faults.at(l, "changes %.500s give %.500v", list, got)
		}
	}
}

// Err is what was found.
func (c *ChangesCheck) Err() error { return c.faults.err() }

// Lists is how many lists of changes were applied.
func (c *ChangesCheck) Lists() int { return c.lists }

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
