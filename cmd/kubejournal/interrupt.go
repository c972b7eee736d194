package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"kubejournal/internal/host/disk"
	"kubejournal/internal/host/pager"
)

// grace is how long an answer may still take after it was interrupted.
const grace = 500 * time.Millisecond

// errInterrupted says that an answer was not finished.
var errInterrupted = errors.New("interrupted")

// answering runs what answers a question so that it ends soon after it is interrupted, whatever it does: a library that
// compares, decompresses or writes a large text does not look at a context. It only reads, so nothing is lost.
type answering struct {
	page atomic.Pointer[pager.Pager] // that shows the answer, once there is one
}

// run calls answer. Where that does not return within grace after the end of the context, it is left alone: the process
// must end then. Its temporary files are removed, and a pager's user has left it.
func (q *answering) run(ctx context.Context, answer func() error) error {
	done := make(chan error, 1)
	go func() { done <- answer() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
	}
	disk.RemoveTemporaries()
	if page := q.page.Load(); page != nil {
		_ = page.Close() // it is the user's
	}
	return errInterrupted
}
