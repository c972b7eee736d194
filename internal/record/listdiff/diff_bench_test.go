package listdiff

import (
	"fmt"
	"path/filepath"
	"testing"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

// listed is an object as a list shows it.
type listed struct{ namespace, name, uid, rv []byte }

// BenchmarkRelist compares a list of 100,000 objects, of which 1 % have changed,
// with what the checkpoint knows. way=plain is the same with all of it in a map,
// as an informer has it.
func BenchmarkRelist(b *testing.B) {
	const n = 100_000
	objects := make([]listed, n)
	var c checkpoint.Changes
	for i := range objects {
		o := listed{
			fmt.Appendf(nil, "shop-%03d", i/1000), fmt.Appendf(nil, "web-6d4cf56db6-%06d", i),
			fmt.Appendf(nil, "%08x-7c1e-4a5b-9d3f-%012x", uint32(i)*2654435761, i), fmt.Append(nil, 100_000+i),
		}
		c.Put(o.namespace, o.name, o.uid, o.rv)
		if i%100 == 0 {
			o.rv = fmt.Append(nil, 900_000+i)
		}
		objects[i] = o
	}
	store, err := checkpoint.Open(filepath.Join(b.TempDir(), "checkpoint.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	batch := checkpoint.NewBatch()
	batch.Add("pods", &c)
	if err := store.Commit(batch); err != nil {
		b.Fatal(err)
	}
	run := func(name string, changed func() int) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if got := changed(); got != n/100 {
					b.Fatalf("%d of %d objects have changed", got, n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/object")
		})
	}
	run("known=100000/way=kubejournal", func() (changed int) {
		d := Diff{Known: func(namespace, name string) (object.Known, bool, error) {
			return store.Get("pods", namespace, name)
		}}
		defer d.Release()
		for _, o := range objects {
			is, err := d.Observe(line.Added, o.namespace, o.name, o.uid, o.rv)
			if err != nil {
				b.Fatal(err)
			}
			if is.Verdict == News {
				changed++
			}
		}
		if err := store.Range("pods", func(k object.Known) error {
			if d.Missing(k) {
				return fmt.Errorf("%s is missing", k.Name)
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		return changed
	})
	known := make(map[string]object.Known, n)
	if err := store.Range("pods", func(k object.Known) error {
		known[k.Namespace+"/"+k.Name] = k
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	run("known=100000/way=plain", func() (changed int) {
		seen := make(map[string]bool)
		for _, o := range objects {
			key := string(o.namespace) + "/" + string(o.name)
			seen[key] = true
			if k, ok := known[key]; !ok || k.UID != string(o.uid) || k.ResourceVersion != string(o.rv) {
				changed++
			}
		}
		for key := range known {
			if !seen[key] {
				b.Fatalf("%s is missing", key)
			}
		}
		return changed
	})
}
