package previous

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/test/eventtest"
)

// BenchmarkOption is what a line costs, from the object's bytes on, with one
// option each: beside "plain" stands what the others add.
func BenchmarkOption(b *testing.B) {
	type step = func(next []byte, o *object.Object, l *object.Line) error
	nothing := func([]byte, []byte) step { return func([]byte, *object.Object, *object.Line) error { return nil } }
	for _, option := range []struct {
		name string
		line object.Line
		make func(prev, next []byte) step // what is to be done for each event between Scan and AppendLine
	}{
		{"plain", object.Line{}, nothing},
		{"metadata", object.Line{Payload: object.MetadataOnly}, nothing},
		{"none", object.Line{Payload: object.NoObject}, nothing},
		{"maxLineBytes, longer", object.Line{MaxBytes: 1 << 10}, nothing},
		{"ignoreFields", object.Line{}, func([]byte, []byte) step {
			d := mustDigester(b, podShape, "status.conditions[*].lastHeartbeatTime", "metadata.annotations")
			return func(next []byte, _ *object.Object, _ *object.Line) error {
				_, err := d.Digest(next)
				return err
			}
		}},
		{"changes", object.Line{}, func(prev, _ []byte) step {
			var (
				d     changes.Differ
				now   []byte
				found []byte
			)
			return func(_ []byte, o *object.Object, l *object.Line) (err error) {
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
				var o object.Object
				if err := r.Scan(eventtest.Pod(size, 1), &o); err != nil {
					b.Fatal(err)
				}
				prev := o.AppendShaped(nil)
				next := bytes.Replace(pod, []byte(`"status":"True","lastTransitionTime":"2026-11-20T16:1`), []byte(`"status":"False","lastTransitionTime":"2026-11-20T17:1`), 1)
				next = bytes.Replace(next, []byte(`"resourceVersion":"100001"`), []byte(`"resourceVersion":"200001"`), 1)
				do := option.make(prev, next)
				l := option.line
				l.Type, l.Origin, l.Received = line.Modified, line.FromWatch, time.Now()
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
					if out, err = r.AppendLine(line.AppendSeq(out[:0], 1), l, &o); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
