package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/format/segment"
	"kubejournal/test/eventtest"
)

// podLines are n lines about pods of size bytes, as a journal has them.
func podLines(b *testing.B, n, size int) []byte {
	b.Helper()
	r, err := object.NewRenderer(object.Source{Stream: "pods", Version: "v1", Resource: "pods", Kind: "Pod"}, object.Shape{})
	if err != nil {
		b.Fatal(err)
	}
	var (
		lines []byte
		o     object.Object
	)
	for i := range n {
		if err := r.Scan(eventtest.Pod(size, i), &o); err != nil {
			b.Fatal(err)
		}
		if lines, err = r.AppendLine(line.AppendSeq(lines, uint64(i+1)), object.Line{Type: line.Modified, Origin: line.FromWatch, Received: start}, &o); err != nil {
			b.Fatal(err)
		}
	}
	return lines
}

// BenchmarkFile reads a journal file from its beginning to its end; the goal is 50,000 lines/s. raw is the same file read
// and taken apart at its line ends.
func BenchmarkFile(b *testing.B) {
	const n = 5000
	for _, size := range []int{2 << 10, 6 << 10} {
		path := filepath.Join(b.TempDir(), "journal.jsonl")
		lines := podLines(b, n, size)
		if err := os.WriteFile(path, lines, 0o600); err != nil {
			b.Fatal(err)
		}
		show := func(o Options, style Style) func(*testing.B) {
			return func(b *testing.B) {
				for range b.N {
					if err := Files(context.Background(), []string{path}, o, NewPrinter(io.Discard, style)); err != nil && !errors.Is(err, ErrNotCovered) {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
			}
		}
		width := func() int { return 160 }
		for name, run := range map[string]func(*testing.B){
			"text":               show(Options{Lines: All}, Style{}),
			"terminal":           show(Options{Lines: All}, Style{Width: width, Colour: true}),
			"json":               show(Options{Lines: All}, Style{JSON: true}),
			"json on a terminal": show(Options{Lines: All}, Style{JSON: true, Width: width}),
			"filtered":           show(Options{Lines: All, Filter: argument.Filter{Selection: argument.Selection{Objects: objects(b, "deploy")}}}, Style{}),
			"raw": func(b *testing.B) {
				var r segment.Reader
				for range b.N {
					f, err := os.Open(path)
					if err != nil {
						b.Fatal(err)
					}
					r.Reset(f, 0)
					for err == nil {
						_, err = r.Next()
					}
					f.Close()
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
			},
		} {
			b.Run(fmt.Sprintf("%s/%dKB", name, size>>10), run)
		}
	}
}

// BenchmarkPrint shows lines of each kind, changes and Events among them.
func BenchmarkPrint(b *testing.B) {
	for name, raw := range map[string]string{
		"plain":   deploymentLine,
		"changes": objectLine("MODIFIED", `,"changes":[{"op":"replace","path":"/metadata/resourceVersion","old":"1","value":"2"},{"op":"replace","path":"/spec/replicas","old":2,"value":3},{"op":"add","path":"/metadata/labels/tier","value":"db"}]`),
		"event":   objectLine("ADDED", `,"event":{"reason":"BackOff","message":"Back-off restarting failed container","type":"Warning","count":12,"reporter":"kubelet","regarding":{"kind":"Pod","namespace":"shop","name":"web-0"}},"object":{}`),
	} {
		lines := bytes.Repeat([]byte(raw+"\n"), 100)
		b.Run(name, func(b *testing.B) {
			p := NewPrinter(io.Discard, Style{Width: func() int { return 160 }, Colour: true})
			b.ReportAllocs()
			for range b.N {
				if _, err := p.Write(lines); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
