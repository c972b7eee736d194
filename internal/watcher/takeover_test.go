package watcher_test

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
	"kubejournal/test/replicas"
)

var updateScenes = flag.Bool("scenes.update", false, "TestTakeover writes what the replicas have written into its scenes")

// TestTakeover plays the numbered scenes of docs/design.md. Each is a file: a comment, the steps, and what each replica
// has written then, as term, type, origin and name, and what they have written together. A step is
//
//	start|stop|kill R          a replica; start ends when it watches
//	launch R                   the same, and ends at once
//	put|remove NAME...         a ConfigMap
//	pass DURATION
//	cut|mend R                 the replica's way to the server; a request that is cut waits
//	block|unblock R            its lists and watches
//	dies R BYTES               it will be killed once so many bytes more are in its journal
//	slow R DURATION            its next write takes so long
//	await R LINE               until its journal has such a line
//	backup, restore            of the server, and of the Lease with it
//	compact                    the server forgets what it can
//	delete-lease
func TestTakeover(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	files, err := filepath.Glob("testdata/takeover/*.txtar")
	if err != nil || len(files) < 11 {
		t.Fatalf("%d scenes, %v", len(files), err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		must(t, err)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) { playScene(w, file, archive) })
		})
	}
}

// scene is one that is played.
type scene struct {
	*harness // of the server; it starts no daemon
	replicas map[string]*actor
	backup   uint64
}

// actor is a replica of a scene.
type actor struct {
	*harness
	cut     atomic.Int32
	blocked atomic.Bool
}

func (a *actor) wrap(next http.RoundTripper) http.RoundTripper {
	return &cuttable{&blockable{next, &a.blocked}, &a.cut}
}

// blockable fails requests for objects.
type blockable struct {
	next    http.RoundTripper
	blocked *atomic.Bool
}

// WrappedRoundTripper is for client-go.
func (b *blockable) WrappedRoundTripper() http.RoundTripper { return b.next }

func (b *blockable) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.blocked.Load() && strings.HasSuffix(r.URL.Path, "/configmaps") {
		return nil, fmt.Errorf("%s is blocked", r.URL.Path)
	}
	return b.next.RoundTrip(r)
}

// replica returns one of the scene.
func (s *scene) replica(name string) *actor {
	a := s.replicas[name]
	if a == nil {
		a = &actor{harness: s.second()}
		a.harness.wrap = a.wrap
		s.replicas[name] = a
	}
	return a
}

func (a *actor) watches() bool {
	return len(a.life.manager.Streams()) > 0 && a.state("configmaps").State == "Watching"
}

func playScene(w *harness, file string, archive *txtar.Archive) {
	s := &scene{harness: w, replicas: make(map[string]*actor)}
	defer func() {
		for _, a := range s.replicas {
			if a.life != nil {
				a.kill()
			}
		}
	}()
	for n, step := range strings.Split(strings.TrimSpace(string(archive.Comment)), "\n") {
		if words := strings.Fields(step); len(words) > 0 && words[0] != "#" {
			s.step(words, func(format string, args ...any) {
				w.t.Helper()
				w.t.Fatalf("%s:%d: %s: %s", file, n+1, step, fmt.Sprintf(format, args...))
			})
		}
	}
	var wrote []txtar.File
	var journals [][]invariant.Line
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range s.replicas {
			if !yield(name) {
				return
			}
		}
	}) {
		lines := s.replicas[name].lines()
		journals = append(journals, lines)
		wrote = append(wrote, txtar.File{Name: name, Data: sceneRows(lines)})
	}
	merged, err := replicas.Merge(journals...)
	must(w.t, err)
	raw := &invariant.Replicas{Journals: journals}
	must(w.t, errors.Join(raw.Check(), raw.Acknowledged(w.writes), raw.Merged(merged)))
	followed, err := invariant.Replay(raw.Follow())
	must(w.t, err)
	must(w.t, invariant.Compare(followed, w.live()))
	state, err := invariant.Replay(merged)
	must(w.t, err)
	must(w.t, invariant.Compare(state, w.live()))
	wrote = append(wrote, txtar.File{Name: "together", Data: sceneRows(merged)})
	if *updateScenes {
		archive.Files = wrote
		must(w.t, os.WriteFile(file, txtar.Format(archive), 0o644)) //nolint:gosec // a file of the repository
	}
	got, want := txtar.Format(&txtar.Archive{Files: wrote}), txtar.Format(&txtar.Archive{Files: archive.Files})
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		w.t.Errorf("(-want +got):\n%s", diff)
	}
}

// sceneRows are lines as a scene has them.
func sceneRows(lines []invariant.Line) []byte {
	var b []byte
	for _, l := range lines {
		b = fmt.Appendf(b, "%d %s\n", l.Term, brief(l))
	}
	return b
}

// step plays one.
func (s *scene) step(words []string, fail func(string, ...any)) {
	s.t.Helper()
	verb, args := words[0], words[1:]
	switch verb {
	case "put":
		for _, name := range args {
			s.put(configMaps, name)
		}
		return
	case "remove":
		for _, name := range args {
			s.remove(configMaps, name)
		}
		return
	case "pass":
		d, err := time.ParseDuration(args[0])
		must(s.t, err)
		s.pass(d)
		return
	case "backup":
		s.backup = s.srv.Version()
		return
	case "restore":
		s.srv.RestoreTo(s.backup)
		s.epoch++
		return
	case "compact":
		s.srv.DropHistory()
		return
	case "delete-lease":
		_, err := s.srv.Delete(leases, "default", "kubejournal")
		must(s.t, err)
		return
	}
	a := s.replica(args[0])
	switch verb {
	case "start", "launch":
		a.start()
		if verb == "start" {
			a.awaitFor(2*time.Minute, "it watches", a.watches)
		}
	case "stop":
		a.stop()
	case "kill":
		a.kill()
	case "cut":
		a.cut.Store(cutRequests)
		s.srv.BreakWatches()
	case "mend":
		a.cut.Store(cutNothing)
	case "block":
		a.blocked.Store(true)
		s.srv.BreakWatches()
	case "unblock":
		a.blocked.Store(false)
	case "dies":
		n, err := strconv.Atoi(args[1])
		must(s.t, err)
		a.life.gate.dieAfterBytes(n)
	case "slow":
		d, err := time.ParseDuration(args[1])
		must(s.t, err)
		a.life.gate.slow(d, 0)
	case "await":
		a.awaitFor(3*time.Minute, strings.Join(words, " "), func() bool {
			return slices.Contains(briefs(a.lines()), strings.Join(args[1:], " "))
		})
	default:
		fail("no such step")
	}
}
