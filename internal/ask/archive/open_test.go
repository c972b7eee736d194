package archive_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/test/journaltest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func begin(t *testing.T) *journaltest.Journal {
	return journaltest.New(t, filepath.Join(t.TempDir(), "journal.jsonl"), noon)
}

func settings(n int) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"settings","uid":"c1"},"data":{"n":"%d"}}`, n)
}

func selectionOf(t *testing.T, args ...string) *argument.Selection {
	t.Helper()
	objects, err := argument.Objects(args)
	if err != nil {
		t.Fatal(err)
	}
	return &argument.Selection{Objects: objects}
}
