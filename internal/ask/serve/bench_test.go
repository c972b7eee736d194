package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"kubejournal/internal/ask/argument"
	"kubejournal/test/journaltest"
)

// BenchmarkList lists 5,000 pods of a rotated file.
func BenchmarkList(b *testing.B) {
	j := journaltest.New(b, filepath.Join(b.TempDir(), "journal.jsonl"), noon)
	pods := j.Stream("pods", "Pod")
	pods.Snapshot()
	for n := range 5000 {
		pods.Put("", pod(fmt.Sprintf("n%d", n%50), fmt.Sprintf("web%d", n), fmt.Sprintf("%08x", n+1), "n1", "Running"))
	}
	pods.Synced()
	j.Now = minute(1)
	j.Rotate()
	pods.Put("", pod("n0", "last", "ffffffff", "n1", "Running"))
	j.Now = minute(2)
	j.Confirm(false, pods)
	s, err := New(b.Context(), Options{Paths: []string{j.Path}, At: argument.Moment{Time: minute(2)}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, query := range []string{"", "?limit=500", "?labelSelector=app%3Dlast", "?fieldSelector=metadata.name%3Dweb77"} {
		b.Run("pods"+query, func(b *testing.B) {
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, "/api/v1/pods"+query, http.NoBody)
				r.Host = "localhost"
				w := httptest.NewRecorder()
				if s.ServeHTTP(w, r); w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}
