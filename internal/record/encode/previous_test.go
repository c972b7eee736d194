package encode

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/record/previous"
)

// An object that an earlier release has stored, deeper than lines are now, costs a line what it would say of it, and no more.
func TestPreviousTooDeep(t *testing.T) {
	r, err := object.NewRenderer(object.Source{Stream: "pods", Version: "v1", Resource: "pods", Kind: "Pod"}, object.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := previous.New(previous.Config{Stream: "pods", Changes: true}, nil, func() uint64 { return 0 }, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	e := &Encoder{render: r, previous: store}
	const levels = 9_998
	before := previous.Version{Object: []byte(`{"metadata":{"name":"a"},"a":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}`)}
	var o object.Object
	if err := r.Scan([]byte(`{"metadata":{"name":"a"},"a":1}`), &o); err != nil {
		t.Fatal(err)
	}
	compared, err := store.Compare(before, &o)
	if compared.Same || err != nil {
		t.Fatal(compared.Same, err)
	}
	line := object.Line{Type: line.Modified, Origin: line.FromWatch, Received: time.Now()}
	got, err := e.appendLine(nil, line, &o, before.Mark, compared)
	if text := string(got); err != nil || strings.Contains(text, `"changes"`) || !strings.Contains(text, `"object"`) {
		t.Errorf("%.300s, %v", text, err)
	}
	got, err = e.appendGone(nil, time.Now(), object.Known{Name: "a"}, before)
	if text := string(got); err != nil || !strings.Contains(text, `"metadata":{"name":"a"}`) {
		t.Errorf("%.300s, %v", text, err)
	}
}
