package watcher_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// seeds is how many worlds are made up, a third of them under the race detector; a failing one is run again by
// -run 'TestKilledAnywhere/17$'.
const seeds = 200

// TestKilledAnywhere kills the daemon at any byte of the journal and around any
// commit, in first syncs, relists and churn, several times per world, with and
// without the history, and then looks at all that must hold of the journal.
func TestKilledAnywhere(t *testing.T) {
	n := seeds
	if raced {
		n /= 3
	}
	if testing.Short() {
		n = 3
	}
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 7))
			o := fake.Options{NoWatchList: r.IntN(3) == 0, GoneAsStatus: r.IntN(2) == 0, BookmarkInterval: 10 * time.Second}
			if r.IntN(2) == 0 {
				o.MaxPage = 1 + r.IntN(9)
			}
			bubble(t, o, entries("configmaps", "deployments.apps"), func(w *harness) {
				m := mayhem{harness: w, rand: r, names: 2 + r.IntN(40)}
				if r.IntN(5) == 0 {
					w.pad = r.IntN(12 << 10) // large objects make a list of several writes
				}
				m.churn(r.IntN(80))
				for range 1 + r.IntN(4) {
					m.live()
					m.down()
				}
				w.start()
				w.check()
				w.stop()
			})
		})
	}
}

// mayhem makes up what happens to a world.
type mayhem struct {
	*harness
	rand  *rand.Rand
	names int
}

// churn makes n writes.
func (m *mayhem) churn(n int) {
	for range n {
		m.write()
	}
}

func (m *mayhem) write() {
	gvr := configMaps
	if m.rand.IntN(5) == 0 {
		gvr = deployments
	}
	name := fmt.Sprint("n", m.rand.IntN(m.names))
	_, err := m.srv.Get(gvr, "default", name)
	if err == nil && m.rand.IntN(3) == 0 {
		m.remove(gvr, name)
		if m.rand.IntN(2) == 0 {
			return
		}
	}
	m.put(gvr, name)
}

// live is one run of the daemon: churn, and the server's moods, until it dies.
func (m *mayhem) live() {
	m.start()
	g := m.life.gate
	switch m.rand.IntN(3) {
	case 0:
		g.dieAfterBytes(m.rand.IntN(1 + m.rand.IntN(80*(500+m.pad))))
	case 1:
		g.dieAtCommit(m.rand.IntN(12), m.rand.IntN(2) == 0)
	}
	for range m.rand.IntN(40) {
		switch m.rand.IntN(12) {
		case 0:
			m.srv.BreakWatches()
		case 1:
			m.srv.EndWatches()
		case 2:
			m.srv.RestartAPIServer()
		case 3:
			m.srv.StopAPIServer()
			m.churn(m.rand.IntN(5))
			m.pass(time.Duration(m.rand.IntN(5000)) * time.Millisecond)
			must(m.t, m.srv.StartAPIServer())
		case 4:
			m.pass(time.Duration(m.rand.IntN(20_000)) * time.Millisecond)
		default:
			m.churn(m.rand.IntN(6))
		}
		if m.rand.IntN(3) == 0 {
			m.pass(time.Duration(m.rand.IntN(400)) * time.Millisecond)
		}
		select {
		case <-g.died:
			m.kill()
			return
		default:
		}
	}
	if m.rand.IntN(6) > 0 {
		m.kill()
		return
	}
	g.disarm()
	m.stop()
}

// down is what happens while no daemon runs.
func (m *mayhem) down() {
	m.churn(m.rand.IntN(15))
	m.put(secrets, "noise") // the server's version never stands still; see TestGapAtTheSameVersion
	switch m.rand.IntN(3) {
	case 0:
		m.srv.DropHistory()
	case 1:
		m.srv.RestartAPIServer()
	}
}

// The journal is cut anywhere in the lines of a relist that no commit has seen
// yet, and what those lines were about changes again.
func TestTornAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for bytes := 0; ; bytes += 11 {
		survived := false
		bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
			w.put(configMaps, "a")
			w.put(configMaps, "b")
			w.start()
			w.synced()
			w.stop()
			w.put(configMaps, "b")
			w.remove(configMaps, "a")
			w.put(configMaps, "a")
			w.srv.DropHistory()
			w.start()
			w.life.gate.dieAfterBytes(bytes)
			w.pass(100 * time.Millisecond)
			select {
			case <-w.life.gate.died:
			default:
				survived = true
			}
			w.kill()
			w.put(configMaps, "b")
			w.remove(configMaps, "a")
			w.put(configMaps, "a")
			w.start()
			w.check()
		})
		if survived {
			break
		}
	}
}

// An object is deleted and made again while the daemon lies dead.
func TestRecreatedAcrossKill(t *testing.T) {
	for name, c := range map[string]struct {
		forget bool
		want   []string
	}{
		"history is there": {false, []string{"DELETED watch a", "ADDED watch a", "MODIFIED watch a", "DELETED watch b", "ADDED watch b"}},
		"history is gone":  {true, []string{"GAP Expired", "DELETED relist a", "ADDED relist a", "DELETED relist b", "ADDED relist b", "SYNCED +2 ~0 -2 =1"}},
	} {
		for _, pause := range []time.Duration{0, 300 * time.Millisecond, 5 * time.Second} {
			t.Run(fmt.Sprint(name, " ", pause), func(t *testing.T) {
				bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
					w.put(configMaps, "a")
					w.put(configMaps, "k")
					w.start()
					w.synced()
					w.put(configMaps, "b")
					w.pass(pause) // committed, or not yet
					w.kill()
					n := w.tell(0, "ADDED snapshot a", "ADDED snapshot k", "SYNCED +2 ~0 -0 =0", "ADDED watch b")
					w.remove(configMaps, "a")
					w.put(configMaps, "a")
					if !c.forget {
						w.put(configMaps, "a")
					}
					w.remove(configMaps, "b")
					w.put(configMaps, "b")
					if c.forget {
						w.srv.DropHistory()
					}
					w.start()
					w.synced()
					w.tell(n, c.want...)
					w.check()
				})
			})
		}
	}
}

// A relist that dies in the middle of writing continues after its GAP: what is
// written is not written again.
func TestKilledInARelist(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		n := w.upset()
		w.start()
		w.life.gate.dieUncommitted(`"type":"SYNCED"`)
		w.pass(10 * time.Second)
		w.kill()
		lines := w.tell(n, netResult...) // written, and not committed
		w.start()
		if !strings.Contains(w.log.String(), "read back the journal's tail") {
			t.Error("no line was read back")
		}
		w.synced()
		w.tell(lines)
		w.check()
	})
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		n := w.upset()
		w.start()
		w.life.gate.dieAfterBytes(600) // GAP and one line, or a little more
		w.pass(10 * time.Second)
		w.kill()
		if got := len(w.lines()) - n; got < 1 || got >= len(netResult) {
			t.Fatalf("%d lines were written", got)
		}
		w.put(secrets, "noise")
		w.start()
		w.synced()
		lines := w.lines()[n:]
		var gaps []invariant.Line
		for _, l := range lines {
			if l.Type == invariant.Gap {
				gaps = append(gaps, l)
			}
		}
		if len(gaps) != 1 || !slices.Equal(briefs(lines), netResult) {
			t.Errorf("got %q", briefs(lines))
		}
		w.check()
	})
}

// Nothing was written on the server between two relists: what a GAP and a
// SYNCED say of the same versions is said once, since their ids are the same.
func TestGapAtTheSameVersion(t *testing.T) {
	t.Run("killed in a relist", func(t *testing.T) {
		bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
			w.upset()
			w.start()
			w.life.gate.dieAfterBytes(600)
			w.pass(10 * time.Second)
			w.kill()
			w.start()
			w.check()
		})
	})
	t.Run("gone again", func(t *testing.T) {
		bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
			w.upset()
			w.start()
			w.synced()
			w.pass(10 * time.Second)
			w.srv.SetFault(first(2, on("configmaps", "watch", &fake.Fault{Stream: fake.Gone})))
			w.srv.EndWatches()
			w.pass(time.Minute)
			w.check()
		})
	})
}
