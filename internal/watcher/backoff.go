package watcher

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pauses are those of client-go's Reflector (tools/cache/reflector.go):
// 0.8 s doubling to 30 s with jitter, from the beginning again after a session
// that lasted and brought something. Where the Reflector asks for two minutes
// of that, we do for less: a server that is restarted again and again should
// not cost us half a minute each time.
const (
	backoffFirst = 800 * time.Millisecond
	backoffMax   = 30 * time.Second
	healthyAfter = 5 * time.Second
)

// backoff counts the pauses of one stream. Not for concurrent use.
type backoff struct{ next time.Duration }

// pause is how long to wait now: between one and two times the current step,
// and at least after, from which streams that were given the same do not come
// back together either.
func (b *backoff) pause(after time.Duration) time.Duration {
	if b.next == 0 {
		b.next = backoffFirst
	}
	spread := rand.N(b.next)
	d := max(b.next, after) + spread
	b.next = min(2*b.next, backoffMax)
	return d
}

// reset begins from the shortest pause again.
func (b *backoff) reset() { b.next = 0 }

// sleep waits for d and tells whether it passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
