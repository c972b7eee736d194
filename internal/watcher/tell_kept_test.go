package watcher

import (
	"strings"
	"testing"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
)

// An object that an earlier version has kept, deeper than lines are now, costs a line what it would say of it, and no more.
func TestKeptTooDeep(t *testing.T) {
	r, err := event.NewRenderer(event.Source{Stream: "pods", Version: "v1", Resource: "pods", Kind: "Pod"}, event.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	tell := &teller{render: r, keep: &keeper{changes: true}}
	const levels = 9_998
	before := kept{object: []byte(`{"metadata":{"name":"a"},"a":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}`)}
	var o event.Object
	if err := r.Scan([]byte(`{"metadata":{"name":"a"},"a":1}`), &o); err != nil {
		t.Fatal(err)
	}
	tell.shaped = o.AppendShaped(nil)
	var out telling
	if err := tell.write(&out, event.Line{Type: event.Modified, Origin: event.FromWatch, Received: time.Now()}, &o, before); err != nil {
		t.Fatal(err)
	}
	if line := string(out.line); strings.Contains(line, `"changes"`) || !strings.Contains(line, `"object"`) {
		t.Errorf("%.300s", line)
	}
	if out, err = tell.tellGone(nil, time.Now(), checkpoint.Known{Name: "a"}, before); err != nil || !strings.Contains(string(out.line), `"metadata":{"name":"a"}`) {
		t.Errorf("%.300s, %v", out.line, err)
	}
}
