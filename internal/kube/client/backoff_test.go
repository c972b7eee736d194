package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoff(t *testing.T) {
	for range 200 {
		var b Backoff
		step := FirstPause
		for range 12 {
			if d := b.Pause(0); d < step || d >= 2*step {
				t.Fatalf("pause %v at the step %v", d, step)
			}
			step = min(2*step, MaxPause)
		}
		if step != MaxPause {
			t.Fatalf("step %v after 12 pauses", step)
		}
		b.Reset()
		if d := b.Pause(0); d < FirstPause || d >= 2*FirstPause {
			t.Fatalf("pause %v after a reset", d)
		}
	}
}

func TestBackoffAfter(t *testing.T) {
	var b Backoff
	if d := b.Pause(time.Minute); d < time.Minute || d >= time.Minute+FirstPause {
		t.Errorf("pause %v, the server asked for a minute", d)
	}
	if d := b.Pause(time.Nanosecond); d < 2*FirstPause {
		t.Errorf("pause %v, shorter than the second step", d)
	}
}

// Two streams that lose their server together do not come back together.
func TestBackoffJitter(t *testing.T) {
	seen := make(map[time.Duration]bool)
	for range 50 {
		var b Backoff
		seen[b.Pause(0)] = true
		b.Reset()
		seen[b.Pause(time.Minute)] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different pauses of 100", len(seen))
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Sleep(t.Context(), time.Hour) || time.Since(began) != time.Hour {
			t.Errorf("slept %v", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		if Sleep(ctx, time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("slept %v of a minute", time.Since(began))
		}
	})
}
