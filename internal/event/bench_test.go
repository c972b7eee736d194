package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"kubejournal/internal/event/eventtest"
)

// benchSizes are those of the pods, in bytes.
var benchSizes = []int{2000, 6000, 60000}

var podSource = Source{Stream: "pods", Cluster: "prod-eu1", Version: "v1", Resource: "pods", Kind: "Pod"}

var podShape = Shape{Drop: []string{"metadata.managedFields"}}

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

func mustRenderer(tb testing.TB, src Source, shape Shape) *Renderer {
	tb.Helper()
	r, err := NewRenderer(src, shape)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func eachSize(b *testing.B, f func(b *testing.B, size int)) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprintf("pod=%dKB", size/1000), func(b *testing.B) {
			b.SetBytes(int64(len(eventtest.WatchStream(64, size)) / 64))
			b.ReportAllocs()
			f(b, size)
		})
	}
}

// BenchmarkCopy is the floor: the stream's bytes read and copied once more.
func BenchmarkCopy(b *testing.B) {
	eachSize(b, func(b *testing.B, size int) {
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
	eachSize(b, func(b *testing.B, size int) {
		f := NewFrameReader(&loop{b: eventtest.WatchStream(64, size)}, 0)
		for b.Loop() {
			if _, err := f.Next(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSplit(b *testing.B) {
	eachSize(b, func(b *testing.B, size int) {
		frame := bytes.TrimSpace(eventtest.WatchStream(1, size))
		for b.Loop() {
			if _, _, err := SplitWatch(frame); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkScan(b *testing.B) {
	eachSize(b, func(b *testing.B, size int) { benchScan(b, size, podShape) })
}

// BenchmarkRedact is BenchmarkScan with the value of every environment variable
// redacted, of which there are some in each pod.
func BenchmarkRedact(b *testing.B) {
	eachSize(b, func(b *testing.B, size int) {
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
	eachSize(b, func(b *testing.B, size int) {
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
	eachSize(b, func(b *testing.B, size int) {
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
	eachSize(b, func(b *testing.B, size int) {
		r := mustRenderer(b, podSource, podShape)
		var o Object
		if err := r.Scan(eventtest.Pod(size, 1), &o); err != nil {
			b.Fatal(err)
		}
		out := make([]byte, 0, 2*size)
		now := time.Now()
		for b.Loop() {
			var err error
			if out, err = r.AppendEvent(AppendSeq(out[:0], 1), Modified, FromWatch, now, &o); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPath is the whole way from the wire's bytes to the line.
func BenchmarkPath(b *testing.B) {
	eachSize(b, func(b *testing.B, size int) {
		step := newPath(b, eventtest.WatchStream(64, size), podSource, podShape)
		for b.Loop() {
			if err := step(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkParseHeader(b *testing.B) {
	eachSize(b, func(b *testing.B, size int) {
		r := mustRenderer(b, podSource, podShape)
		var o Object
		if err := r.Scan(eventtest.Pod(size, 1), &o); err != nil {
			b.Fatal(err)
		}
		line, err := r.AppendEvent(AppendSeq(nil, 1), Modified, FromWatch, time.Now(), &o)
		if err != nil {
			b.Fatal(err)
		}
		var h Header
		for b.Loop() {
			if err := ParseHeader(line, &h); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// newPath returns a function that makes one line of the stream's next event.
func newPath(tb testing.TB, stream []byte, src Source, shape Shape) func() error {
	f := NewFrameReader(&loop{b: stream}, 0)
	r := mustRenderer(tb, src, shape)
	var (
		o   Object
		out []byte
		seq uint64
		now = time.Now()
	)
	return func() error {
		frame, err := f.Next()
		if err != nil {
			return err
		}
		t, object, err := SplitWatch(frame)
		if err != nil {
			return err
		}
		if err := r.Scan(object, &o); err != nil {
			return err
		}
		seq++
		out, err = r.AppendEvent(AppendSeq(out[:0], seq), t, FromWatch, now, &o)
		return err
	}
}

// BenchmarkOption is what a line costs, from the object's bytes on, with one
// option each: beside "plain" stands what the others add.
func BenchmarkOption(b *testing.B) {
	type step = func(next []byte, o *Object, l *Line) error
	nothing := func([]byte, []byte) step { return func([]byte, *Object, *Line) error { return nil } }
	for _, option := range []struct {
		name string
		line Line
		make func(prev, next []byte) step // what is to be done for each event between Scan and AppendLine
	}{
		{"plain", Line{}, nothing},
		{"metadata", Line{Payload: MetadataOnly}, nothing},
		{"none", Line{Payload: NoObject}, nothing},
		{"maxLineBytes, longer", Line{MaxBytes: 1 << 10}, nothing},
		{"ignoreFields", Line{}, func([]byte, []byte) step {
			d := mustDigester(b, podShape, "status.conditions[*].lastHeartbeatTime", "metadata.annotations")
			return func(next []byte, _ *Object, _ *Line) error {
				_, err := d.Digest(next)
				return err
			}
		}},
		{"changes", Line{}, func(prev, _ []byte) step {
			var (
				d     Differ
				now   []byte
				found []byte
			)
			return func(_ []byte, o *Object, l *Line) (err error) {
				now = o.AppendShaped(now[:0])
				found, err = d.Append(found[:0], prev, now)
				l.Changes = found
				return err
			}
		}},
	} {
		for _, size := range []int{2000, 6000, 60000} {
			b.Run(fmt.Sprintf("%s/pod=%dB", option.name, size), func(b *testing.B) {
				r := mustRenderer(b, podSource, podShape)
				pod := eventtest.Pod(size, 1)
				var o Object
				if err := r.Scan(eventtest.Pod(size, 1), &o); err != nil {
					b.Fatal(err)
				}
				prev := o.AppendShaped(nil)
				next := bytes.Replace(pod, []byte(`"status":"True","lastTransitionTime":"2026-11-20T16:1`), []byte(`"status":"False","lastTransitionTime":"2026-11-20T17:1`), 1)
				next = bytes.Replace(next, []byte(`"resourceVersion":"100001"`), []byte(`"resourceVersion":"200001"`), 1)
				do := option.make(prev, next)
				l := option.line
				l.Type, l.Origin, l.Received = Modified, FromWatch, time.Now()
				var out []byte
				b.ReportAllocs()
				for b.Loop() {
					if err := r.Scan(next, &o); err != nil {
						b.Fatal(err)
					}
					if err := do(next, &o, &l); err != nil {
						b.Fatal(err)
					}
					var err error
					if out, err = r.AppendLine(AppendSeq(out[:0], 1), l, &o); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
