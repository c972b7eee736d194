package object

import (
	"encoding/json"
	"testing"
	"time"

	"kubejournal/internal/format/line"
	"kubejournal/test/eventtest"
)

var podSource = Source{Stream: "pods", Cluster: "prod-eu1", Version: "v1", Resource: "pods", Kind: "Pod"}

var podShape = Shape{Drop: []string{"metadata.managedFields"}}

func mustRenderer(tb testing.TB, src Source, shape Shape) *Renderer {
	tb.Helper()
	r, err := NewRenderer(src, shape)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func BenchmarkScan(b *testing.B) {
	eventtest.EachSize(b, func(b *testing.B, size int) { benchScan(b, size, podShape) })
}

// BenchmarkRedact is BenchmarkScan with the value of every environment variable
// redacted, of which there are some in each pod.
func BenchmarkRedact(b *testing.B) {
	eventtest.EachSize(b, func(b *testing.B, size int) {
		benchScan(b, size, Shape{Drop: podShape.Drop, Redact: []string{"spec.containers[*].env[*].value"}})
	})
}

func benchScan(b *testing.B, size int, shape Shape) {
	r := mustRenderer(b, podSource, shape)
	pods := manyPods(size)
	var o Object
	i := 0
	for b.Loop() {
		if err := r.Scan(pods[i%len(pods)], &o); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// manyPods are so many that the branch predictor cannot learn them by heart.
func manyPods(size int) [][]byte {
	pods := make([][]byte, 64)
	for i := range pods {
		pods[i] = eventtest.Pod(size, i)
	}
	return pods
}

// BenchmarkJSONValid is what the standard library takes to check as much.
func BenchmarkJSONValid(b *testing.B) {
	eventtest.EachSize(b, func(b *testing.B, size int) {
		pods := manyPods(size)
		i := 0
		for b.Loop() {
			if !json.Valid(pods[i%len(pods)]) {
				b.Fatal("no JSON")
			}
			i++
		}
	})
}

// BenchmarkJSONDecode is the way that is not taken: into maps.
func BenchmarkJSONDecode(b *testing.B) {
	eventtest.EachSize(b, func(b *testing.B, size int) {
		pods := manyPods(size)
		i := 0
		for b.Loop() {
			var object map[string]any
			if err := json.Unmarshal(pods[i%len(pods)], &object); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	eventtest.EachSize(b, func(b *testing.B, size int) {
		r := mustRenderer(b, podSource, podShape)
		var o Object
		if err := r.Scan(eventtest.Pod(size, 1), &o); err != nil {
			b.Fatal(err)
		}
		out := make([]byte, 0, 2*size)
		now := time.Now()
		for b.Loop() {
			var err error
			if out, err = r.AppendLine(line.AppendSeq(out[:0], 1), Line{Type: line.Modified, Origin: line.FromWatch, Received: now}, &o); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkParseHeader(b *testing.B) {
	eventtest.EachSize(b, func(b *testing.B, size int) {
		r := mustRenderer(b, podSource, podShape)
		var o Object
		if err := r.Scan(eventtest.Pod(size, 1), &o); err != nil {
			b.Fatal(err)
		}
		written, err := r.AppendLine(line.AppendSeq(nil, 1), Line{Type: line.Modified, Origin: line.FromWatch, Received: time.Now()}, &o)
		if err != nil {
			b.Fatal(err)
		}
		var h line.Header
		for b.Loop() {
			if err := line.ParseHeader(written, &h); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPeek is what it takes to know that an object is not the daemon's own.
func BenchmarkPeek(b *testing.B) {
	eventtest.EachSize(b, func(b *testing.B, size int) {
		r := mustRenderer(b, podSource, podShape)
		pods := manyPods(size)
		var o Object
		i := 0
		for b.Loop() {
			if !r.Peek(pods[i%len(pods)], &o) {
				b.Fatal("not found")
			}
			i++
		}
	})
}
