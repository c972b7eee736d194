package query

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/line"
)

func BenchmarkZ(b *testing.B) {
	o, _ := ParseObject("pods")
	at, _ := time.Parse(time.RFC3339, "2026-11-20T15:00:00Z")
	for name, s := range map[string]*Selection{"ns": {Objects: []Object{o}, Namespaces: []string{"forecast-dev"}}, "all": {Objects: []Object{o}}} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				j, err := Open(os.Getenv("Z"), func(string) {})
				if err != nil {
					b.Fatal(err)
				}
				if err := j.Resolve(b.Context(), s); err != nil {
					b.Fatal(err)
				}
				st, err := j.State(b.Context(), s, Moment{Time: at})
				if err != nil {
					b.Fatal(err)
				}
				var n atomic.Int64
				if err := j.Read(b.Context(), st.Items, func(int, *line.Fields) error { n.Add(1); return nil }); err != nil {
					b.Fatal(err)
				}
				j.Close()
				b.ReportMetric(float64(n.Load()), "objects")
			}
		})
	}
}
