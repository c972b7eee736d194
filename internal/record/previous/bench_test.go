package previous

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"testing"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/object"
	"kubejournal/test/eventtest"
)

func newRenderer(tb testing.TB) *object.Renderer {
	tb.Helper()
	r, err := object.NewRenderer(object.Source{Stream: "pods", Version: "v1", Resource: "pods", Kind: "Pod"}, podShape)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// nothing is a checkpoint in which nothing is committed.
type nothing struct{}

func (nothing) Kept([]byte, string, []byte, []byte) ([]byte, bool, error) { return nil, false, nil }
func (nothing) KeptHeader(string) ([]byte, bool, error)                   { return nil, false, nil }
func (nothing) DropKept(string) error                                     { return nil }

// BenchmarkStore is what a list of changes costs per event, beside its line: the previous version of a pod, or of a
// Secret, is read, compared, and the next one stored.
func BenchmarkStore(b *testing.B) {
	for _, size := range []int{2000, 6000, 60000} {
		b.Run(fmt.Sprintf("pod=%dB", size), func(b *testing.B) {
			pod := func(i int) []byte { return eventtest.Pod(size, i) }
			benchmarkStore(b, podShape, pod, `"resourceVersion":"100001"`, `"resourceVersion":"200001"`)
		})
	}
	hiding := object.Shape{Secret: true, Drop: podShape.Drop}
	b.Run("secret, other version", func(b *testing.B) {
		benchmarkStore(b, hiding, eventtest.Secret, `"resourceVersion":"200001"`, `"resourceVersion":"300001"`)
	})
	b.Run("secret, other values", func(b *testing.B) {
		benchmarkStore(b, hiding, eventtest.Secret, base64.StdEncoding.EncodeToString([]byte(eventtest.SecretText)), "b3RoZXJvdGhlcm90aGVyMg==")
	})
}

func benchmarkStore(b *testing.B, shape object.Shape, version func(i int) []byte, old, replaced string) {
	s, err := New(Config{Stream: "pods", Changes: true, Shape: shape}, nothing{}, func() uint64 { return 0 }, zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := s.Load(); err != nil {
		b.Fatal(err)
	}
	var (
		r    = mustRenderer(b, podSource, shape)
		c    checkpoint.Changes
		o    object.Object
		one  = version(1)
		next = bytes.ReplaceAll(one, []byte(old), []byte(replaced))
		n    uint64
	)
	step := func(raw []byte) {
		if err := r.Scan(raw, &o); err != nil {
			b.Fatal(err)
		}
		before, err := s.Get(o.Namespace, o.Name)
		if err != nil {
			b.Fatal(err)
		}
		compared, err := s.Compare(before, &o)
		if err != nil {
			b.Fatal(err)
		}
		compared.Changes(nil)
		c.Reset()
		clear(s.uncommitted)
		s.order = s.order[:0]
		s.Put(&c, n, o.Namespace, o.Name, compared.Value(false))
		n++
	}
	for i := range 2 * baseObjects {
		step(version(i))
	}
	step(one)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			step(next)
		} else {
			step(one)
		}
	}
	b.ReportMetric(float64(len(s.next.value)), "stored-B")
	b.ReportMetric(float64(len(s.next.list)), "list-B")
}

// BenchmarkPack is what storing the previous version of a pod costs, in bytes too,
// with the base that its stream learns and without.
func BenchmarkPack(b *testing.B) {
	for _, size := range []int{2000, 6000, 60000} {
		var (
			r      = newRenderer(b)
			o      object.Object
			shaped = func(i int) []byte {
				if err := r.Scan(eventtest.Pod(size, i), &o); err != nil {
					b.Fatal(err)
				}
				return o.AppendShaped(nil)
			}
			learned base
			pods    [16][]byte
		)
		for i := 100; !learned.learn(shaped(i)); i++ {
		}
		for i := range pods {
			pods[i] = shaped(i)
		}
		for name, p := range map[string]*Packer{"alone": NewPacker(nil), "with base": learned.packer} {
			var (
				packed [len(pods)][]byte
				total  int
				out    []byte
			)
			for i, pod := range pods {
				packed[i] = p.Pack(nil, pod)
				total += len(packed[i])
			}
			b.Run(fmt.Sprintf("%s/pod=%dB/pack", name, size), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					out = p.Pack(out[:0], pods[i%len(pods)])
				}
				b.ReportMetric(float64(total)/float64(len(pods)), "stored-B")
			})
			b.Run(fmt.Sprintf("%s/pod=%dB/unpack", name, size), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					var err error
					if out, err = p.Unpack(out[:0], packed[i%len(pods)], size); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
