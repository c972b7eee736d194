package watcher_test

import (
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/kube/fake"
)

// A leader whose watch has stalled is believed until somebody reads what was missing: the next leader, for all
// journals together, and this replica for its own one, once it follows again.
func TestPulseOfAStalledLeader(t *testing.T) {
	for name, lost := range map[string]bool{"read by the next leader": false, "listed by the next leader": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				b := w.followed()
				defer b.kill()
				w.pass(5 * time.Minute)
				b.kill()
				w.srv.SilenceWatches()
				w.pass(5 * time.Second)
				w.put(configMaps, "b")
				wrote := time.Now()
				w.pass(45 * time.Second)
				if !w.promptAt(wrote) {
					t.Fatal("there were no pulses")
				}
				w.kill()
				if lost {
					w.srv.Expire(w.srv.Version())
				}
				b.start()
				b.awaitFor(time.Minute, "it writes", func() bool { return len(b.lines()) > 0 })
				w.pass(10 * time.Second)
				if w.togetherAt(b.harness, wrote) {
					came := b.lines()[0].Time
					t.Errorf("together they are believed at %s, though a write of then came at %s", wrote, came)
				}
				w.start()
				w.pass(2 * time.Minute)
				if w.promptAt(wrote) || w.togetherAt(b.harness, wrote) {
					t.Errorf("behind a start it is believed at %s, though it has missed a write of then", wrote)
				}
				w.mergedIsLive(b)
			})
		})
	}
}

// Pulses of a leader that was killed stay believed where its watch was well: the next one has followed, or reads
// what was written after them.
func TestPulseOfAKilledLeader(t *testing.T) {
	for name, follows := range map[string]bool{"the next one follows": true, "the next one starts later": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				b := w.followed()
				defer b.kill()
				w.pass(5 * time.Minute)
				if !follows {
					b.kill()
				}
				w.pass(45 * time.Second)
				killed := time.Now()
				w.kill()
				w.pass(10 * time.Second)
				w.put(configMaps, "b")
				if !follows {
					b.start()
				}
				b.awaitFor(time.Minute, "it writes", func() bool { return len(b.lines()) > 0 })
				w.pass(10 * time.Second)
				if at := killed.Add(-5 * time.Second); !w.togetherAt(b.harness, at) {
					t.Errorf("they are not believed at %s, before the leader was killed at %s", at, killed)
				}
				w.start()
				w.pass(2 * time.Minute)
				if at := killed.Add(-5 * time.Second); !w.promptAt(at) || !w.togetherAt(b.harness, at) {
					t.Errorf("behind a start it is not believed at %s, before it was killed at %s", at, killed)
				}
			})
		})
	}
}

// togetherAt reports whether the coverage of two replicas says that lines of a time came at once.
func (w *harness) togetherAt(b *harness, t time.Time) bool {
	w.t.Helper()
	paths := []string{w.journal(), b.journal()}
	j, err := archive.OpenAll(w.t.Context(), paths, &argument.Selection{}, archive.NoLines, func(string) {})
	must(w.t, err)
	defer j.Close()
	all, err := j.Coverage(&argument.Selection{})
	must(w.t, err)
	for _, i := range all[0].Intervals {
		if !i.Late && !i.From.After(t) && i.To.After(t) {
			return true
		}
	}
	return false
}
