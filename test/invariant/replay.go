package invariant

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// Key is an object's place.
type Key struct{ Group, Resource, Namespace, Name string }

func (k Key) String() string {
	resource := k.Resource
	if k.Group != "" {
		resource += "." + k.Group
	}
	return resource + " " + k.Namespace + "/" + k.Name
}

// Object is what is at a place. Content is the object without apiVersion and kind, which a list leaves out and which
// change with the version that one reads; nil when nobody told.
type Object struct {
	UID             string
	ResourceVersion string
	Content         map[string]any
}

// State is the objects at their places.
type State map[Key]Object

// last applies the lines in order, and returns the last one about each object that is there.
func last(lines []Line) map[Key]*Line {
	latest := make(map[Key]*Line)
	for i := range lines {
		l := &lines[i]
		k := Key{l.Group, l.Resource, l.Namespace, l.Name}
		switch l.Type {
		case Added, Modified:
			latest[k] = l
		case Deleted:
			delete(latest, k)
		}
	}
	return latest
}

// Last returns the seq of the last line about each object that is there after the lines.
func Last(lines []Line) map[Key]uint64 {
	seqs := make(map[Key]uint64)
	for k, l := range last(lines) {
		seqs[k] = l.Seq
	}
	return seqs
}

// Replay applies the lines in order.
func Replay(lines []Line) (State, error) {
	latest := last(lines)
	state := make(State, len(latest))
	for k, l := range latest {
		o := Object{UID: l.UID, ResourceVersion: l.ResourceVersion}
		if l.Object != nil {
			d := json.NewDecoder(bytes.NewReader(l.Object))
			d.UseNumber()
			if err := d.Decode(&o.Content); err != nil {
				return nil, fmt.Errorf("%s: read object: %w", l.Where, err)
			}
			delete(o.Content, "apiVersion")
			delete(o.Content, "kind")
		}
		state[k] = o
	}
	return state, nil
}

// Expect returns an object of the server as the journal should tell it: without managedFields, Secrets redacted.
// content is its JSON.
func Expect(k Key, content []byte) (Object, error) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	var c map[string]any
	if err := d.Decode(&c); err != nil {
		return Object{}, fmt.Errorf("read %s: %w", k, err)
	}
	delete(c, "apiVersion")
	delete(c, "kind")
	meta, _ := c["metadata"].(map[string]any)
	delete(meta, "managedFields")
	if k.Group == "" && k.Resource == "secrets" {
		var values []string
		for _, field := range []string{"data", "stringData"} {
			members, _ := c[field].(map[string]any)
			for name, v := range members {
				values, members[name] = append(values, fmt.Sprint(v)), "REDACTED"
			}
		}
		annotations, _ := meta["annotations"].(map[string]any)
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		for name, text := range annotations {
			if shown(name, fmt.Sprint(text), values) {
				annotations[name] = "REDACTED"
			}
		}
	}
	uid, _ := meta["uid"].(string)
	rv, _ := meta["resourceVersion"].(string)
	return Object{UID: uid, ResourceVersion: rv, Content: c}, nil
}

// shown reports whether an annotation of a Secret shows one of its values, in the ways that tests write them: plain, in
// base64, in JSON; or is known to.
func shown(name, text string, values []string) bool {
	for _, v := range values {
		plain, err := base64.StdEncoding.DecodeString(v)
		if len(v) >= 4 && strings.Contains(text, v) ||
			err == nil && len(plain) >= 4 && strings.Contains(text, string(plain)) {
			return true
		}
	}
	return name == "kapp.k14s.io/original" || name == "openshift.io/token-secret.value"
}

// Compare checks that the journal's objects are the server's.
func Compare(journal, server State) error {
	f := faults{check: "replay"}
	for _, k := range ordered(journal, server) {
		told, known := journal[k]
		is, live := server[k]
		switch {
		case !known:
			f.add("%s: the journal does not know it, the server has %s at %s", k, is.UID, is.ResourceVersion)
		case !live:
			f.add("%s: the journal has %s at %s, the server has none", k, told.UID, told.ResourceVersion)
		case told.UID != is.UID || told.ResourceVersion != is.ResourceVersion:
			f.add("%s: the journal has %s at %s, the server %s at %s", k, told.UID, told.ResourceVersion, is.UID,
				is.ResourceVersion)
		case told.Content != nil && !reflect.DeepEqual(is.Content, told.Content):
			f.add("%s: content (-server +journal):\n%s", k, cmp.Diff(is.Content, told.Content))
		}
	}
	return f.err()
}

func ordered(states ...State) []Key {
	all := make(State)
	for _, s := range states {
		maps.Copy(all, s)
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b Key) int { return strings.Compare(a.String(), b.String()) })
}
