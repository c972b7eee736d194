package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"kubejournal/internal/host/disk"
)

// An answer that does not look at its context is left alone once that has ended, and its temporary folder is removed.
func TestQuestionEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := filepath.Join(t.TempDir(), "merge")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	disk.NoteTemporary(dir)
	never := make(chan struct{})
	defer close(never)
	var q answering
	err := q.run(ctx, func() error {
		cancel()
		<-never
		return nil
	})
	if !errors.Is(err, errInterrupted) {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
	fault := errors.New("fault")
	if err := q.run(ctx, func() error { return fault }); !errors.Is(err, fault) {
		t.Error(err)
	}
	if err := q.run(t.Context(), func() error { return nil }); err != nil {
		t.Error(err)
	}
}
