package archive

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// A completion that takes too long has the names that it found until then.
func TestCompleteTooLate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	line := `{"seq":1,"time":"2026-11-20T14:00:01Z","type":"SYNCED","id":"1","stream":"pods","version":"v1",` +
		`"resource":"pods","kind":"Pod","resourceVersion":"1"}` + "\n"
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := Open(path, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := j.CompleteObjects(ctx, nil, nil, "po"); len(got) > 0 {
		t.Errorf("%q after the end", got)
	}
}
