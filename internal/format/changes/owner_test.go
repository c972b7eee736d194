package changes

import (
	"fmt"
	"strings"
	"testing"

	"kubejournal/internal/format/object"
)

// The owner is the one whose set holds all that was set or changed; nobody where something has no owner.
func ownerOf(prev, next []byte, sets [][]byte) int {
	_, owner, _ := AppendOwned(nil, prev, next, nil, sets)
	return owner
}

func TestOwner(t *testing.T) {
	const (
		spec   = `{"f:spec":{"f:replicas":{},"f:selector":{}}}`
		status = `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}},"f:phase":{}}}`
		items  = `{"f:spec":{"f:items":{".":{},"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:image":{}}}}}`
		other  = `{"f:spec":{"f:items":{"k:{\"name\":\"b\"}":{".":{},"f:name":{}}}}}`
		ports  = `{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:to":{}},"k:{\"port\":80,\"protocol\":\"UDP\"}":{".":{}}}}`
		tags   = `{"f:tags":{".":{},"v:\"x\"":{},"v:\"\u00e9\\\"\"":{}}}`
	)
	for name, c := range map[string]struct {
		prev, next string
		sets       []string
		want       int
	}{
		"a number":             {`{"spec":{"replicas":1}}`, `{"spec":{"replicas":10}}`, []string{status, spec}, 1},
		"nothing":              {`{"spec":{"replicas":1}}`, `{"spec":{"replicas":1}}`, []string{spec}, -1},
		"the same, escaped":    {`{"status":{"phase":"a/b"}}`, `{"status":{"phase":"a\/b"}}`, []string{status}, -1},
		"two owners":           {`{"spec":{"replicas":1},"status":{"phase":"a"}}`, `{"spec":{"replicas":2},"status":{"phase":"b"}}`, []string{status, spec}, -1},
		"owned by both":        {`{"spec":{"replicas":1}}`, `{"spec":{"replicas":2}}`, []string{spec, spec}, -1},
		"something of nobody":  {`{"spec":{"replicas":1}}`, `{"spec":{"replicas":2,"nodeName":"n"}}`, []string{spec}, -1},
		"of every write":       {`{"kind":"a","metadata":{"generation":1,"resourceVersion":"1"},"spec":{"replicas":1}}`, `{"metadata":{"generation":2,"resourceVersion":"2","managedFields":[]},"spec":{"replicas":2}}`, []string{spec}, 0},
		"an empty set":         {`{"spec":{"replicas":1}}`, `{"spec":{"replicas":2}}`, []string{"", spec}, 1},
		"removed":              {`{"spec":{"replicas":1,"a":1}}`, `{"spec":{"replicas":1}}`, []string{spec}, -1},
		"removed and set":      {`{"spec":{"replicas":1,"a":1}}`, `{"spec":{"replicas":2}}`, []string{spec}, 0},
		"added":                {`{"spec":{}}`, `{"spec":{"replicas":2}}`, []string{spec}, 0},
		"all added":            {`{"metadata":{}}`, `{"metadata":{},"status":{"phase":"a"}}`, []string{spec, status}, 1},
		"atomic map":           {`{"spec":{"replicas":1,"selector":{"a":"1"}}}`, `{"spec":{"replicas":2,"selector":{"a":"1","b":"2"}}}`, []string{spec}, 0},
		"atomic map, less":     {`{"spec":{"replicas":1,"selector":{"a":"1","b":"2"}}}`, `{"spec":{"replicas":2,"selector":{"a":"1"}}}`, []string{spec}, 0},
		"atomic map, alone":    {`{"spec":{"selector":{"a":"1"}}}`, `{"spec":{"selector":{"a":"1","b":"2"}}}`, []string{spec}, -1},
		"another's container":  {`{"spec":{"replicas":1,"a":{"b":1}}}`, `{"spec":{"replicas":2,"a":{"b":2}}}`, []string{spec, `{"f:spec":{"f:a":{}}}`}, -1},
		"several containers":   {`{"spec":{"replicas":1,"a":{"b":1}}}`, `{"spec":{"replicas":2,"a":{"b":2}}}`, []string{`{"f:spec":{"f:replicas":{},"f:a":{}}}`, `{"f:spec":{"f:a":{}}}`}, -1},
		"was empty":            {`{"spec":{"selector":{}}}`, `{"spec":{"selector":{"a":"1"}}}`, []string{spec}, -1},
		"is empty":             {`{"spec":{"selector":{"a":"1"}}}`, `{"spec":{"selector":{}}}`, []string{spec}, -1},
		"another kind":         {`{"spec":{"replicas":1}}`, `{"spec":{"replicas":"1"}}`, []string{spec}, 0},
		"another, a container": {`{"spec":{"replicas":1}}`, `{"spec":{"replicas":{"a":1}}}`, []string{spec}, -1},
		"null":                 {`{"spec":{"selector":{"a":"1"},"replicas":1}}`, `{"spec":{"selector":null,"replicas":null}}`, []string{spec}, -1},
		"inner, another kind":  {`{"spec":{"items":null}}`, `{"spec":{"items":[{"name":"a"}]}}`, []string{items}, -1},
		"element":              {`{"spec":{"items":[{"name":"b"},{"name":"a","image":"1"}]}}`, `{"spec":{"items":[{"name":"a","image":"2"},{"name":"b"}]}}`, []string{items, other}, 0},
		"element added":        {`{"spec":{"items":[{"name":"a","image":"1"}]}}`, `{"spec":{"items":[{"name":"b"},{"name":"a","image":"1"}]}}`, []string{items, other}, 1},
		"elements moved":       {`{"spec":{"items":[{"name":"a"},{"name":"b"}]}}`, `{"spec":{"items":[{"name":"b"},{"name":"a"}]}}`, []string{items, other}, -1},
		"element of nobody":    {`{"spec":{"items":[{"name":"a"}]}}`, `{"spec":{"items":[{"name":"a"},{"name":"c"}]}}`, []string{items, other}, -1},
		"element's field":      {`{"spec":{"items":[{"name":"b"}]}}`, `{"spec":{"items":[{"name":"b","image":"1"}]}}`, []string{items, other}, -1},
		"condition":            {`{"status":{"conditions":[{"type":"Ready","status":"a"}]}}`, `{"status":{"conditions":[{"type":"Ready","status":"b"}]}}`, []string{status, spec}, 0},
		"two keys":             {`{"ports":[{"port":80,"protocol":"UDP"},{"port":80,"protocol":"TCP"}]}`, `{"ports":[{"port":80,"protocol":"UDP"},{"port":80,"protocol":"TCP","to":1}]}`, []string{ports}, 0},
		"a key is missing":     {`{"ports":[{"port":80}]}`, `{"ports":[{"port":80,"to":1}]}`, []string{ports}, -1},
		"set":                  {`{"tags":["y"]}`, `{"tags":["x","y"]}`, []string{tags}, 0},
		"set, escaped":         {`{"tags":["x"]}`, `{"tags":["x","é\""]}`, []string{tags}, 0},
		"set, of nobody":       {`{"tags":["x"]}`, `{"tags":["x","z"]}`, []string{tags}, -1},
		"set, moved":           {`{"tags":["x","y"]}`, `{"tags":["y","x"]}`, []string{tags}, -1},
		"atomic list":          {`{"spec":{"selector":["a","b"]}}`, `{"spec":{"selector":["b","c"]}}`, []string{status, spec}, 1},
		"atomic list, more":    {`{"spec":{"selector":[]}}`, `{"spec":{"selector":[{"a":1}]}}`, []string{spec}, 0},
		"atomic list, inside":  {`{"spec":{"selector":[{"a":1},{"a":2}]}}`, `{"spec":{"selector":[{"a":1},{"a":3}]}}`, []string{spec}, 0},
		"atomic list, less":    {`{"spec":{"selector":["a","b"]}}`, `{"spec":{"selector":["a"]}}`, []string{spec}, -1},
		"element, less":        {`{"spec":{"selector":[{"a":1,"b":1}]}}`, `{"spec":{"selector":[{"b":1}]}}`, []string{spec}, -1},
		"atomic list, moved":   {`{"spec":{"selector":["a","b"]}}`, `{"spec":{"selector":["b","a"]}}`, []string{spec}, -1},
		"atomic list of two":   {`{"spec":{"selector":["a"]}}`, `{"spec":{"selector":["b"]}}`, []string{spec, spec}, -1},
		"held by the server":   {`{"metadata":{"finalizers":["a"]}}`, `{"metadata":{"finalizers":["a","orphan"]}}`, []string{`{"f:metadata":{"f:finalizers":{}}}`}, -1},
		"pod evicted":          {`{"status":{"conditions":[{"type":"a"}]}}`, `{"status":{"conditions":[{"type":"a"},{"type":"b"}]}}`, []string{`{"f:status":{"f:conditions":{}}}`}, -1},
		"by index":             {`{"tags":["x"]}`, `{"tags":["y"]}`, []string{`{"f:tags":{"i:0":{}}}`}, -1},
		"list of nobody":       {`{"a":[1]}`, `{"a":[1,2]}`, []string{tags}, -1},
		"last applied":         {`{"metadata":{"annotations":{"a":"1","` + object.LastApplied + `":"1"}}}`, `{"metadata":{"annotations":{"a":"1","` + object.LastApplied + `":"2"}}}`, []string{`{"f:metadata":{"f:annotations":{"f:` + object.LastApplied + `":{}}}}`}, -1},
		"pod bound":            {`{"spec":{},"status":{"conditions":[{"type":"Ready","status":"a"}]}}`, `{"spec":{"nodeName":"n"},"status":{"conditions":[{"type":"Ready","status":"b"}]}}`, []string{status}, -1},
		"deleted":              {`{"metadata":{},"status":{"phase":"a"}}`, `{"metadata":{"deletionTimestamp":"x"},"status":{"phase":"b"}}`, []string{status}, -1},
		"broken":               {`{`, `{}`, []string{spec}, -1},
		"deeper than is asked": {`{"spec":` + strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat("}", 201), `{"spec":` + strings.Repeat(`{"a":`, 200) + `2` + strings.Repeat("}", 201), []string{`{"f:spec":` + strings.Repeat(`{"f:a":`, 200) + `{}` + strings.Repeat("}", 201)}, -1},
	} {
		var sets [][]byte
		for _, s := range c.sets {
			sets = append(sets, []byte(s))
		}
		if got := ownerOf([]byte(c.prev), []byte(c.next), sets); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// Large objects cost no more than a bounded number of steps.
func TestOwnerSteps(t *testing.T) {
	for n, want := range map[int]int{20: 0, 300: -1} { // elements that are all new, and all owned
		var prev, next, set []string
		for i := range n {
			prev = append(prev, fmt.Sprintf(`{"name":"x%d"}`, i))
			next = append(next, fmt.Sprintf(`{"name":"y%d"}`, i))
			set = append(set, fmt.Sprintf(`"k:{\"name\":\"y%d\"}":{".":{}}`, i))
		}
		list := func(elements []string) []byte {
			return []byte(`{"spec":{"items":[` + strings.Join(elements, ",") + `]}}`)
		}
		sets := [][]byte{[]byte(`{"f:spec":{"f:items":{` + strings.Join(set, ",") + `}}}`)}
		if got := ownerOf(list(prev), list(next), sets); got != want {
			t.Errorf("%d elements: %d, want %d", n, got, want)
		}
	}
}

// A Shape that hides to which node a pod is bound leaves nobody to ask for an owner.
func TestShowsNode(t *testing.T) {
	for path, want := range map[string]bool{"metadata.managedFields": true, "spec.containers": true, "spec.nodeName": false, "spec": false} {
		if got := ShowsNode(object.Shape{Drop: []string{path}}); got != want {
			t.Errorf("without %s: %v", path, got)
		}
	}
	if ShowsNode(object.Shape{Redact: []string{"spec"}}) {
		t.Error("redacted")
	}
}
