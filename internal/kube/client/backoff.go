package client

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
	FirstPause   = 800 * time.Millisecond
	MaxPause     = 30 * time.Second
	HealthyAfter = 5 * time.Second
)

// Backoff counts the pauses between the sessions of one reader. The zero value
// begins with FirstPause. Not for concurrent use.
type Backoff struct{ next time.Duration }

// Pause is how long to wait now: between one and two times the current step,
// and at least after, from which streams that were given the same do not come
// back together either.
func (b *Backoff) Pause(after time.Duration) time.Duration {
	if b.next == 0 {
		b.next = FirstPause
	}
	spread := rand.N(b.next)
	d := max(b.next, after) + spread
	b.next = min(2*b.next, MaxPause)
	return d
}

// Reset begins from the shortest pause again.
func (b *Backoff) Reset() { b.next = 0 }

// Sleep waits for d and reports whether it passed before ctx ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
