package watcher_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

var (
	modelHistories = flag.Int("model.histories", 300, "how many histories TestModel makes up; a sixth of them under the race detector")
	modelFrom      = flag.Uint64("model.from", 0, "the first history's seed")
	modelSeed      = flag.Int64("model.seed", -1, "run the history of this seed only")
	modelSkip      = flag.String("model.skip", "", "steps to leave out of that history: 3,5-9")
	modelShrink    = flag.Bool("model.shrink", false, "look for steps that a failing history of -model.seed can do without")
	modelFor       = flag.Duration("model.for", 0, "make up histories for this long, from -model.from on")
	modelWorkers   = flag.Int("model.workers", 2*runtime.GOMAXPROCS(0), "histories at a time")
)

// TestModel makes up histories: what users do on the server, what happens to the
// server, the network, the disk and the daemon. After each, everything heals, and
// then all that must hold of a journal is looked at. A history follows from its
// seed, but for the product's own jitter and the order in which goroutines run.
func TestModel(t *testing.T) { runHistories(t, false) }

func runHistories(t *testing.T, replicated bool) {
	if *modelSeed >= 0 {
		t.Run(fmt.Sprint(*modelSeed), func(t *testing.T) {
			runHistory(t, uint64(*modelSeed), parseSkip(t, *modelSkip), replicated)
		})
		if t.Failed() && *modelShrink {
			shrink(t, uint64(*modelSeed))
		}
		return
	}
	if testing.Short() {
		t.Skip("not in make quick")
	}
	n := *modelHistories
	if raced {
		n /= 6
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // of a third of the time it makes little
	began := time.Now()
	more := func(i uint64) bool { return i < uint64(n) }
	if *modelFor > 0 {
		more = func(uint64) bool { return time.Since(began) < *modelFor }
	}
	var next, done, failed atomic.Uint64
	t.Run("seeds", func(t *testing.T) {
		for range *modelWorkers {
			t.Run("worker", func(t *testing.T) {
				t.Parallel()
				for failed.Load() < maxFailed {
					i := next.Add(1) - 1
					if !more(i) {
						return
					}
					seed := *modelFrom + i
					if !t.Run(fmt.Sprint(seed), func(t *testing.T) { runHistory(t, seed, nil, replicated) }) {
						failed.Add(1)
					}
					done.Add(1)
				}
			})
		}
	})
	fmt.Printf("%d histories from seed %d on, %d failed, %v: the daemon was started %d times, %d writes were looked for in %d lines, %v were claimed, %d versions, %d times, %d windows and %d values were asked for\n",
		done.Load(), *modelFrom, failed.Load(), time.Since(began).Round(time.Millisecond),
		modelTally.starts.Load(), modelTally.writes.Load(), modelTally.lines.Load(),
		time.Duration(modelTally.covered.Load()).Round(time.Second), modelTally.asked.Load(), modelTally.times.Load(), modelTally.windows.Load(), modelTally.blamed.Load())
}

// maxFailed is how many failed histories are enough.
const maxFailed = 5

// model is a world in which a history happens.
type model struct {
	*harness
	seed    uint64
	streams []modelStream // all that the daemon may be told to journal
	pool    []config.Resource
	names   int  // of objects
	changes bool // lines say what changed

	replicas []*replica // of which harness is one; nil where there is one daemon
	one      *replica   // the one that harness is of
	terms    terms

	began  time.Time
	past   []string // what happened, for people
	fault  faults
	asked  asked
	starts []time.Time // of the daemon

	started map[string]bool // streams that a daemon was told to journal
	// frozen is from the moment the server is restored until every stream has
	// seen it. A server that has come past a stream's position again cannot be told
	// from one that never went back, so nothing is written meanwhile.
	frozen   bool
	well     bool              // everything has healed, and nothing has happened since
	restored bool              // it was put back once
	epochs   map[string]int    // of each stream: how often it has seen the server go back
	noted    []invariant.Write // the writes that the journal must tell of
	written  []written         // the server's versions
	// undefined says that the server does not know widgets; defined is its version
	// when it last ceased to.
	undefined bool
	defined   uint64
}

// written is a version of the server, when it came, and the object that was written.
type written struct {
	at              time.Time
	version         uint64
	gvr             schema.GroupVersionResource
	namespace, name string
}

// modelTally is of all histories that held.
var modelTally struct {
	starts, writes, lines atomic.Uint64
	asked, times          atomic.Uint64 // versions and times of the server that a journal covers
	windows               atomic.Uint64 // times between two moments that it covers
	blamed                atomic.Uint64 // values
	covered               atomic.Int64  // nanoseconds
}

// modelStream is what one entry comes to, or a part of it.
type modelStream struct {
	name      string
	gvr       schema.GroupVersionResource
	namespace string // "" is all
	label     string // app=<label>; "" is all
}

// entryPool is what a history takes its entries from. Several of one resource
// make several streams of the same objects.
func entryPool() []config.Resource {
	some := entry("configmaps")
	some.LabelSelector = "app=web"
	two := entry("configmaps")
	two.Namespaces = []string{"web", "db"}
	one := entry("deployments.apps")
	one.Namespaces = []string{"web"}
	return []config.Resource{
		entry("configmaps"), entry("configmaps"), some, two, entry("secrets"), entry("deployments.apps"), one,
		entry("widgets.example.com"), entry("widgets.example.com"), entry("namespaces"),
	}
}

func streamsOf(e config.Resource) []modelStream {
	gvr := resourceOf(e)
	name := gvr.GroupResource().String()
	if key, label, ok := strings.Cut(e.LabelSelector, "="); ok {
		return []modelStream{{name: name + "?labelSelector=" + key + "%3D" + label, gvr: gvr, label: label}}
	}
	if e.Namespaces == nil {
		return []modelStream{{name: name, gvr: gvr}}
	}
	var all []modelStream
	for _, n := range e.Namespaces {
		all = append(all, modelStream{name: name + "?namespace=" + n, gvr: gvr, namespace: n})
	}
	return all
}

// holds reports whether the stream tells of an object, which may be nil.
func (s modelStream) holds(object map[string]any) bool {
	if object == nil {
		return false
	}
	meta := object["metadata"].(map[string]any)
	if namespace, _ := meta["namespace"].(string); s.namespace != "" && s.namespace != namespace {
		return false
	}
	labels, _ := meta["labels"].(map[string]any)
	return s.label == "" || labels["app"] == s.label
}

// runHistory makes up the history of a seed, without the steps to skip, and
// lets it happen. What a step does follows from a seed of its own, so that it
// stays the same where others are left out.
func runHistory(t *testing.T, seed uint64, skip map[int]bool, replicated bool) {
	test := strings.Split(t.Name(), "/")[0]
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 11))
		o := fake.Options{
			NoWatchList: r.IntN(3) == 0, GoneAsStatus: r.IntN(2) == 0, NoAggregatedDiscovery: r.IntN(8) == 0,
			BookmarkInterval: []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Minute}[r.IntN(4)],
		}
		if r.IntN(2) == 0 {
			o.MaxPage = 1 + r.IntN(9)
		}
		m := &model{seed: seed, names: 2 + r.IntN(8), started: map[string]bool{}, epochs: map[string]int{}, began: time.Now()}
		pool := entryPool()
		for range 1 + r.IntN(3) {
			if e := pool[r.IntN(len(pool))]; !slices.ContainsFunc(m.pool, func(o config.Resource) bool { return streamsOf(o)[0] == streamsOf(e)[0] }) {
				m.pool = append(m.pool, e)
				m.streams = append(m.streams, streamsOf(e)...)
			}
		}
		if m.changes = r.IntN(3) == 0; m.changes {
			for i := range m.pool {
				m.pool[i].Changes = true
			}
		}
		m.harness = newWorld(t, o, m.pool)
		m.one = &replica{harness: m.harness, unzipped: make(map[string][]byte)}
		defer m.endAll()
		m.srv.AddResource(widget("v1"))
		m.srv.SetFault(m.fault.choose)
		m.asked.all = make(map[string][]time.Time)
		m.wrap = m.asked.wrap
		if r.IntN(8) == 0 {
			m.pad = r.IntN(12 << 10) // large objects make a list of several writes
		}
		if r.IntN(2) == 0 {
			m.output = journal.Options{MaxSize: int64(300 + r.IntN(6000+2*m.pad)), Compress: r.IntN(3) == 0}
		}
		m.remark("%+v, %d names, padding %d, files up to %d bytes, compressed %v", o, m.names, m.pad, m.output.MaxSize, m.output.Compress)
		defer func() {
			if t.Failed() {
				t.Logf("history:\n%s\nagain: go test ./internal/watcher -run '%s$' -model.seed=%d", strings.Join(m.past, "\n"), test, seed)
			}
		}()
		if replicated {
			m.replicate(r)
		}
		for range r.IntN(40) {
			m.write(r)
		}
		m.remark("versions up to %d are written", m.srv.Version())
		for i := range 10 + r.IntN(1+r.IntN(51)) {
			step := rand.New(rand.NewPCG(r.Uint64(), 12))
			if m.replicas != nil {
				m.choose(m.replicas[step.IntN(len(m.replicas))])
			}
			if !skip[i] {
				m.step(i, step)
			}
		}
		m.finish(r)
	})
}

// remark notes what happened.
func (m *model) remark(format string, args ...any) {
	m.past = append(m.past, fmt.Sprintf("     %12v  ", time.Since(m.began))+fmt.Sprintf(format, args...))
}

func parseSkip(t *testing.T, list string) map[int]bool {
	skip := make(map[int]bool)
	for _, part := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		a, err := strconv.Atoi(from)
		must(t, err)
		b, err := strconv.Atoi(to)
		must(t, err)
		for i := a; i <= b; i++ {
			skip[i] = true
		}
	}
	return skip
}

// shrink leaves out steps of a failing history, more and more, as long as it
// still fails, each time in a process of its own.
func shrink(t *testing.T, seed uint64) {
	list := func(skip map[int]bool) string {
		var all []string
		for i := range 61 {
			if skip[i] {
				all = append(all, fmt.Sprint(i))
			}
		}
		return strings.Join(all, ",")
	}
	fails := func(skip map[int]bool) bool {
		// Several times, since jitter is not in the seed.
		return exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=3",
			"-model.seed="+fmt.Sprint(seed), "-model.skip="+list(skip)).Run() != nil
	}
	skip := parseSkip(t, *modelSkip)
	for size := 16; size >= 1; size /= 2 {
		for from := 0; from < 61; from += size {
			try := make(map[int]bool)
			for i := range skip {
				try[i] = true
			}
			for i := from; i < from+size; i++ {
				try[i] = true
			}
			if len(try) > len(skip) && fails(try) {
				skip = try
			}
		}
	}
	t.Logf("still fails: -model.seed=%d -model.skip=%s", seed, list(skip))
}
