package changes

import (
	"bytes"
	"fmt"
	"testing"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/test/eventtest"
)

func newRenderer(tb testing.TB) *event.Renderer {
	tb.Helper()
	r, err := event.NewRenderer(event.Source{Stream: "pods", Version: "v1", Resource: "pods", Kind: "Pod"}, podShape)
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

// BenchmarkStore is what a list of changes costs per event, beside its line: the
// previous version of a pod is read, compared, and the next one stored.
func BenchmarkStore(b *testing.B) {
	for _, size := range []int{2000, 6000, 60000} {
		b.Run(fmt.Sprintf("pod=%dB", size), func(b *testing.B) {
			s, err := New(Config{Stream: "pods", Changes: true, Shape: podShape}, nothing{}, func() uint64 { return 0 }, zap.NewNop())
			if err != nil {
				b.Fatal(err)
			}
			if _, _, err := s.Load(); err != nil {
				b.Fatal(err)
			}
			var (
				r    = newRenderer(b)
				c    checkpoint.Changes
				o    event.Object
				pod  = eventtest.Pod(size, 1)
				next = bytes.Replace(pod, []byte(`"resourceVersion":"100001"`), []byte(`"resourceVersion":"200001"`), 1)
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
				if _, err := s.Compare(before, &o); err != nil {
					b.Fatal(err)
				}
				if s.Changes(before); n > 2*baseObjects && len(s.next.list) == 0 {
					b.Fatal("nothing has changed")
				}
				c.Reset()
				clear(s.uncommitted)
				s.order = s.order[:0]
				s.Put(&c, n, o.Namespace, o.Name, s.Value(false))
				n++
			}
			for i := range 2 * baseObjects {
				step(eventtest.Pod(size, i))
			}
			step(pod)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%2 == 0 {
					step(next)
				} else {
					step(pod)
				}
			}
			b.ReportMetric(float64(len(s.next.value)), "stored-B")
		})
	}
}

// BenchmarkPack is what storing the previous version of a pod costs, in bytes too,
// with the base that its stream learns and without.
func BenchmarkPack(b *testing.B) {
	for _, size := range []int{2000, 6000, 60000} {
		var (
			r      = newRenderer(b)
			o      event.Object
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
