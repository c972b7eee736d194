package watcher

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// silent gives its bytes and then nothing, until its context ends.
type silent struct {
	ctx   context.Context
	bytes int
}

func (s *silent) Read(p []byte) (int, error) {
	if s.bytes == 0 {
		<-s.ctx.Done()
		return 0, s.ctx.Err()
	}
	time.Sleep(answerTimeout - time.Second) //nolint:forbidigo // the time of a synctest bubble
	s.bytes--
	return 1, nil
}

// A body that goes on, however slowly, is read; one that stops is given up.
func TestIdleReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		b, err := io.ReadAll(newIdleReader(&silent{ctx, 5}, cancel))
		if !errors.Is(err, errNoAnswer) || len(b) != 5 {
			t.Errorf("read %d bytes, %v; want 5 and %v", len(b), err, errNoAnswer)
		}
		if took, want := time.Since(began), 5*(answerTimeout-time.Second)+answerTimeout; took != want {
			t.Errorf("gave up after %v, want %v", took, want)
		}
		if o := classify(t.Context(), err); o.action != actionRetry || o.reason != "Timeout" {
			t.Errorf("classified as %+v", o)
		}
	})
}

// A server that takes a request and never answers costs answerTimeout.
func TestAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		_, err := answered(ctx, cancel, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if !errors.Is(err, errNoAnswer) || time.Since(began) != answerTimeout {
			t.Errorf("answered = %v after %v, want %v after %v", err, time.Since(began), errNoAnswer, answerTimeout)
		}
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		if v, err := answered(ctx, cancel, func(context.Context) (int, error) { return 1, nil }); v != 1 || err != nil {
			t.Errorf("answered = %d, %v, want 1", v, err)
		}
		time.Sleep(2 * answerTimeout) //nolint:forbidigo // the time of a synctest bubble
		if ctx.Err() != nil {
			t.Error("what was answered in time was cancelled later")
		}
	})
}
