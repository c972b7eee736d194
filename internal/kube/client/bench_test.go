package client

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/test/eventtest"
)

var podSource = object.Source{Stream: "pods", Cluster: "prod-eu1", Version: "v1", Resource: "pods", Kind: "Pod"}

var podShape = object.Shape{Drop: []string{"metadata.managedFields"}}

// loop reads the same stream over and over, in pieces as a connection gives them.
type loop struct {
	b []byte
	i int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p, l.b[l.i:])
	if l.i += n; l.i == len(l.b) {
		l.i = 0
	}
	return n, nil
}

func mustRenderer(tb testing.TB, src object.Source, shape object.Shape) *object.Renderer {
	tb.Helper()
	r, err := object.NewRenderer(src, shape)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// BenchmarkCopy is the floor: the stream's bytes read and copied once more.
func BenchmarkCopy(b *testing.B) {
	eventtest.EachSize(b, func(b *testing.B, size int) {
		stream := eventtest.WatchStream(64, size)
		per := len(stream) / 64
		in := &loop{b: stream}
		buf, out := make([]byte, per), make([]byte, 0, 2*per)
		for b.Loop() {
			if _, err := io.ReadFull(in, buf); err != nil {
				b.Fatal(err)
			}
			out = append(out[:0], buf...)
		}
	})
}

func BenchmarkFrame(b *testing.B) {
	eventtest.EachSize(b, func(b *testing.B, size int) {
		f := newFrameReader(&loop{b: eventtest.WatchStream(64, size)}, object.MaxObject)
		for b.Loop() {
			if _, err := f.Next(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSplit(b *testing.B) {
	eventtest.EachSize(b, func(b *testing.B, size int) {
		frame := bytes.TrimSpace(eventtest.WatchStream(1, size))
		for b.Loop() {
			if _, _, err := splitWatch(frame); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPath is the whole way from the wire's bytes to the line.
func BenchmarkPath(b *testing.B) {
	eventtest.EachSize(b, func(b *testing.B, size int) {
		step := newPath(b, eventtest.WatchStream(64, size), podSource, podShape)
		for b.Loop() {
			if err := step(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// newPath returns a function that makes one line of the stream's next event.
func newPath(tb testing.TB, stream []byte, src object.Source, shape object.Shape) func() error {
	f := newFrameReader(&loop{b: stream}, object.MaxObject)
	r := mustRenderer(tb, src, shape)
	var (
		o   object.Object
		out []byte
		seq uint64
		now = time.Now()
	)
	return func() error {
		frame, err := f.Next()
		if err != nil {
			return err
		}
		t, raw, err := splitWatch(frame)
		if err != nil {
			return err
		}
		if err := r.Scan(raw, &o); err != nil {
			return err
		}
		seq++
		out, err = r.AppendLine(line.AppendSeq(out[:0], seq), object.Line{Type: t, Origin: line.FromWatch, Received: now}, &o)
		return err
	}
}

// In a steady state nothing is allocated for an event, from the wire to the line.
func TestAllocations(t *testing.T) {
	streamOf := func(item func(i int) []byte) []byte {
		var b []byte
		for i := range 16 {
			b = fmt.Appendf(b, "{\"type\":\"MODIFIED\",\"object\":%s}\n", item(i))
		}
		return b
	}
	for name, c := range map[string]struct {
		stream []byte
		src    object.Source
		shape  object.Shape
	}{
		"pods":    {eventtest.WatchStream(16, 6000), podSource, podShape},
		"secrets": {streamOf(eventtest.Secret), object.Source{Stream: "secrets", Version: "v1", Resource: "secrets"}, object.Shape{Secret: true, Drop: podShape.Drop}},
		"events":  {streamOf(eventtest.Event), object.Source{Stream: "events", Version: "v1", Resource: "events"}, podShape},
		"config maps": {streamOf(func(i int) []byte { return eventtest.ConfigMap(3000, i) }),
			object.Source{Stream: "configmaps", Version: "v1", Resource: "configmaps"}, object.Shape{Redact: []string{`data["settings.yaml"]`}}},
	} {
		step := newPath(t, c.stream, c.src, c.shape)
		run := func() {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		for range 64 {
			run()
		}
		if n := testing.AllocsPerRun(500, run); n != 0 {
			t.Errorf("%s: %v allocations per event", name, n)
		}
	}
}
