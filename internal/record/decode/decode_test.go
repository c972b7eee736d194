package decode_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/decode"
	"kubejournal/internal/record/metrics"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// rig is a decoder with what it logs and counts.
type rig struct {
	*decode.Decoder
	o   object.Object
	log *observer.ObservedLogs
	m   *metrics.Metrics
}

func newRig(t *testing.T, target client.Target, kind string, namespaced bool) *rig {
	t.Helper()
	render, err := object.NewRenderer(object.Source{Stream: "widgets", Cluster: "c", Version: "v1", Resource: "widgets"}, object.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	core, log := observer.New(zap.InfoLevel)
	r := &rig{log: log, m: metrics.New("", "")}
	target.Resource = widgets
	if r.Decoder, err = decode.New(target, kind, namespaced, render, r.m, zap.New(core)); err != nil {
		t.Fatal(err)
	}
	return r
}

// count is how many objects a counter has.
func count(c *prometheus.CounterVec) int {
	return int(testutil.ToFloat64(c.WithLabelValues("example.com", "widgets")))
}

const (
	named     = `{"kind":"Widget","metadata":{"namespace":"a","name":"w","uid":"u","resourceVersion":"5","labels":{"app":"x"}}`
	usual     = named + `}`
	malformed = named + `,"spec":Infinity}`
)

// What is no answer to the stream's request is refused, and what no line can hold is not.
func TestScan(t *testing.T) {
	one := func(metadata string) string { return `{"metadata":{"uid":"u",` + metadata + `}}` }
	for name, c := range map[string]struct {
		target client.Target
		typ    line.Type
		raw    string
		mine   bool
		err    error
	}{
		"added":                 {raw: usual, mine: true},
		"modified":              {typ: line.Modified, raw: usual, mine: true},
		"deleted":               {typ: line.Deleted, raw: usual, mine: true},
		"bookmark":              {typ: line.Bookmark, raw: `{"kind":"Other","metadata":{"resourceVersion":"5"}}`, mine: true},
		"unknown type":          {typ: "RENAMED", raw: usual, err: client.ErrBadFrame},
		"without a kind":        {raw: one(`"namespace":"a","name":"w","resourceVersion":"5"`), mine: true},
		"another kind":          {raw: strings.Replace(usual, "Widget", "Other", 1), err: decode.ErrOtherKind},
		"no metadata":           {raw: `{"kind":"Widget"}`, err: client.ErrBadFrame},
		"no name":               {raw: one(`"namespace":"a","resourceVersion":"5"`), err: client.ErrBadFrame},
		"no namespace":          {raw: one(`"name":"w","resourceVersion":"5"`), err: decode.ErrOtherScope},
		"no version":            {raw: one(`"namespace":"a","name":"w"`), err: client.ErrNoVersion},
		"version 0":             {raw: one(`"namespace":"a","name":"w","resourceVersion":"0"`), err: client.ErrNoVersion},
		"a slash in the name":   {raw: one(`"namespace":"a","name":"b/w","resourceVersion":"5"`), err: client.ErrBadFrame},
		"NUL in the namespace":  {raw: one(`"namespace":"a\u0000","name":"w","resourceVersion":"5"`), err: client.ErrBadFrame},
		"the namespace":         {target: client.Target{Namespace: "a"}, raw: usual, mine: true},
		"another namespace":     {target: client.Target{Namespace: "b"}, raw: usual},
		"the labels":            {target: client.Target{LabelSelector: "app=x"}, raw: usual, mine: true},
		"other labels":          {target: client.Target{LabelSelector: "app in (y)"}, raw: usual, err: decode.ErrUnselected},
		"labels that are none":  {target: client.Target{LabelSelector: "!app"}, raw: strings.Replace(usual, `{"app":"x"}`, "[1]", 1), mine: true},
		"the name":              {target: client.Target{FieldSelector: "metadata.name=w"}, raw: usual, mine: true},
		"another name":          {target: client.Target{FieldSelector: "metadata.name=v"}, raw: usual, err: decode.ErrUnselected},
		"not another name":      {target: client.Target{FieldSelector: "metadata.name!=v"}, raw: usual, mine: true},
		"not the name":          {target: client.Target{FieldSelector: "metadata.name!=w"}, raw: usual, err: decode.ErrUnselected},
		"namespace as a field":  {target: client.Target{FieldSelector: "metadata.namespace=a"}, raw: usual, mine: true},
		"another as a field":    {target: client.Target{FieldSelector: "metadata.namespace=w"}, raw: usual, err: decode.ErrUnselected},
		"a field of the server": {target: client.Target{FieldSelector: "spec.node=n"}, raw: usual, mine: true},
		"malformed":             {raw: malformed, mine: true},
		"malformed, labels":     {target: client.Target{LabelSelector: "app=y"}, raw: malformed, mine: true},
		"malformed, elsewhere":  {target: client.Target{Namespace: "b"}, raw: malformed},
		"malformed, no name":    {raw: `{"metadata":{"namespace":"a","resourceVersion":"5"},"spec":Infinity}`, err: client.ErrBadFrame},
	} {
		r := newRig(t, c.target, "Widget", true)
		mine, err := r.Scan(cmp.Or(c.typ, line.Added), []byte(c.raw), &r.o)
		if mine != c.mine || !errors.Is(err, c.err) || count(r.m.OtherShards) != 0 || r.Unselected() {
			t.Errorf("%s: %t, %v", name, mine, err)
		}
		bad := mine && c.raw == malformed
		if (count(r.m.Unusable) == 1) != bad || bad && (string(r.o.Name) != "w" || r.o.Unusable.Reason != object.ObjectMalformed) {
			t.Errorf("%s: %d counted, %+v", name, count(r.m.Unusable), r.o.Unusable)
		}
		if whole := c.target == (client.Target{Namespace: c.target.Namespace}); r.Whole() != whole {
			t.Errorf("%s: whole: %t", name, !whole)
		}
	}
	// Of what is in no namespace, and of a kind that is not known.
	r := newRig(t, client.Target{}, "", false)
	if mine, err := r.Scan(line.Added, []byte(`{"kind":"Any",`+one(`"name":"w","resourceVersion":"5"`)[1:]), &r.o); !mine || err != nil {
		t.Errorf("in no namespace: %t, %v", mine, err)
	}
}

// The log names each unusable object once, but does not remember all of them for ever, and says once that a namespace is
// not asked for.
func TestLoggedOnce(t *testing.T) {
	r := newRig(t, client.Target{Namespace: "a"}, "Widget", true)
	scan := func(raw string) {
		t.Helper()
		if _, err := r.Scan(line.Modified, []byte(raw), &r.o); err != nil {
			t.Fatal(err)
		}
	}
	logged := func() int { return r.log.FilterField(zap.String("name", "w")).Len() }
	for range 3 {
		scan(strings.Replace(usual, `"a"`, `"b"`, 1))
		scan(malformed)
		scan(strings.Replace(malformed, `"w"`, `"v"`, 1))
	}
	if r.log.Len() != 3 || logged() != 1 || count(r.m.Unusable) != 6 {
		t.Errorf("%d counted, logged: %v", count(r.m.Unusable), r.log.All())
	}
	for i := range 1023 { // one more than is remembered
		scan(strings.Replace(malformed, `"w"`, fmt.Sprintf(`"w%d"`, i), 1))
	}
	for range 3 {
		if scan(malformed); logged() != 2 {
			t.Errorf("logged %d times", logged())
		}
	}
}

// Each object is in one shard. A server that does not select sends those of others, whose names alone are looked at then.
func TestShard(t *testing.T) {
	in := make(map[int]int)
	for shard := range 3 {
		r := newRig(t, client.Target{Shard: client.Shard{Index: shard, Count: 3}}, "Widget", true)
		other := "" // an object that another has
		for i := range 30 {
			raw := strings.Replace(usual, `"u"`, fmt.Sprintf(`"%d-4f9b-aa7c"`, i), 1)
			if mine, err := r.Scan(line.Added, []byte(raw), &r.o); err != nil {
				t.Fatal(err)
			} else if mine {
				in[i]++
			} else {
				other = raw
			}
			if r.Unselected() != (other != "") || r.Whole() {
				t.Errorf("object %d: unselected: %t, whole: %t", i, r.Unselected(), r.Whole())
			}
		}
		for _, c := range []struct {
			typ       line.Type
			old, text string // replaced in the object
			mine      bool
			err       error
		}{
			{typ: line.Added, old: `"Widget"`, text: "[Infinity]"}, // is not scanned
			{typ: line.Modified, old: `"Widget"`, text: "[Infinity]"},
			{typ: line.Deleted, old: `"Widget"`, text: "[Infinity]"},
			{typ: line.Added, old: `"5"`, text: `"0"`, err: client.ErrNoVersion},
			{typ: "RENAMED", err: client.ErrBadFrame},
			{typ: line.Bookmark, mine: true},
		} {
			before := count(r.m.OtherShards)
			mine, err := r.Scan(c.typ, []byte(strings.Replace(other, c.old, c.text, 1)), &r.o)
			if mine != c.mine || !errors.Is(err, c.err) || count(r.m.OtherShards) > before != (!mine && err == nil) {
				t.Errorf("%s %s: %t, %v, %d counted", c.typ, c.text, mine, err, count(r.m.OtherShards)-before)
			}
			if c.text == "[Infinity]" && (len(r.o.Raw) > 0 || r.o.Unusable != nil) {
				t.Error("an object of another shard is scanned")
			}
		}
	}
	for i := range 30 {
		if in[i] != 1 {
			t.Errorf("object %d is in %d shards", i, in[i])
		}
	}
}

func TestListKind(t *testing.T) {
	for list, kind := range map[string]string{
		"WidgetList": "Widget", "List": "Widget", "Widgets": "Widget", "": "Widget", "OtherList": "",
	} {
		if err := newRig(t, client.Target{}, kind, true).CheckListKind(list); err != nil {
			t.Errorf("%s of %s: %v", list, kind, err)
		}
	}
	if err := newRig(t, client.Target{}, "Widget", true).CheckListKind("OtherList"); !errors.Is(err, decode.ErrOtherKind) {
		t.Errorf("another kind: %v", err)
	}
}

func TestSelectorRefused(t *testing.T) {
	for want, target := range map[string]client.Target{
		"label selector": {LabelSelector: "a in"}, "field selector": {FieldSelector: "metadata.name"},
	} {
		if _, err := decode.New(target, "Widget", true, nil, metrics.New("", ""), zap.NewNop()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v", target, err)
		}
	}
}
