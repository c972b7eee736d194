package program

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollInterval is the least pause between two looks. A look that takes longer is followed by a pause of its length.
const pollInterval = 5 * time.Millisecond

// Final marks an error that no waiting mends.
func Final(err error) error { return final{err} }

type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Eventually waits until check returns nil. The error wraps context.DeadlineExceeded if it did not within the limit,
// and the last one of check.
func Eventually(ctx context.Context, limit time.Duration, what string, check func() error) error {
	return While(ctx, nil, limit, what, check)
}

// Wait is Eventually for as long as the program runs. If that ends the wait, the error wraps ErrEnded.
func (p *Process) Wait(ctx context.Context, limit time.Duration, what string, check func() error) error {
	err := While(ctx, p.done, limit, what, check)
	if errors.Is(err, ErrEnded) {
		return p.Fault(err)
	}
	return err
}

// While is Eventually until done is closed, which is followed by one more look. The error then wraps ErrEnded.
func While(ctx context.Context, done <-chan struct{}, limit time.Duration, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ended := false; ; {
		began := time.Now()
		err := check()
		if err == nil {
			return nil
		}
		if errors.As(err, new(final)) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if ended {
			return fmt.Errorf("%s: %w: %w", what, ErrEnded, err)
		}
		timer.Reset(max(pollInterval, time.Since(began)))
		select {
		case <-timer.C:
		case <-done:
			ended = true // one more look, for what it did last
		case <-ctx.Done():
			return fmt.Errorf("%s: %w, last: %w", what, ctx.Err(), err)
		}
	}
}
