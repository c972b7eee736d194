//go:build linux && amd64

package crash

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"kubejournal/test/program"
)

var (
	complete = flag.Bool("complete", false, "every fault at every operation, in place of a part of them")
	seedFlag = flag.Uint64("seed", 0, "of what is random; 0 takes one by chance")
	only     = flag.String("only", "", "one fault: story/mode/number, as a failure names it; what came before it in the same world is left out")
	onlyMode = flag.String("mode", "", "one mode")
	workers  = flag.Int("workers", 6, "stories told side by side; each mostly waits")
)

// strides are the distances between the operations that a mode befalls in the short form of the test. What is never hit
// that way is hit once more on purpose.
var strides = map[mode]int{killBefore: 1, killAfter: 1, fails: 6, failsOn: 12, doneFails: 6, isShort: 4, powerCut: 6, powerPart: 6, syncLost: 6}

const (
	maxFailures = 5 // shown
	attempts    = 5 // to hit one kind of operation
)

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // in the temporary folder anyway
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// programs are the paths of the programs that the tests build.
type programs struct{ kubejournal, confine, subject string }

var built struct {
	once sync.Once
	dir  string
	err  error
}

// build builds the program under test, the tracer's other half, and the subject of the tracer's own tests.
func build(t *testing.T) programs {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "kubejournal-crash-"); built.err == nil {
			_, built.err = program.Build(context.Background(), built.dir, "./test/crash/confine", "./test/crash/subject")
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	in := func(name string) string { return filepath.Join(built.dir, name) }
	return programs{kubejournal: in("kubejournal"), confine: in("confine"), subject: in("subject")}
}

// scratch is a folder for the worlds: in memory where there is such a place, since a sync of a real disk takes long and
// proves nothing here.
func scratch(t *testing.T) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "kubejournal-crash-"); err == nil {
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		return dir
	}
	return t.TempDir()
}

// campaign is all faults tried, and what became of them.
type campaign struct {
	programs programs
	dir      string
	seed     uint64

	mu       sync.Mutex // guards all below
	table    map[cell]int
	seen     map[cell]string // operations of undisturbed runs, without a mode, and in which story
	failures []error
	faults   int
	count    count // over all worlds
}

type cell struct {
	kind Kind
	role Role
	mode mode
}

func TestCrash(t *testing.T) {
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed=%d", seed)
	c := &campaign{programs: build(t), dir: scratch(t), seed: seed, table: make(map[cell]int), seen: make(map[cell]string)}
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if *onlyMode != "" && !slices.Contains(modes, mode(*onlyMode)) {
		t.Fatalf("-mode=%s is none of %q", *onlyMode, modes)
	}
	if *only != "" {
		if err := c.one(ctx, *only); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, s := range stories {
		if err := c.undisturbed(ctx, s); err != nil {
			t.Fatalf("%s, without a fault: %v", s.name, err)
		}
	}
	var group errgroup.Group
	group.SetLimit(*workers)
	for _, m := range selected() {
		for _, s := range stories {
			group.Go(func() error { return c.sweep(ctx, cancel, s, m) })
		}
	}
	err := group.Wait()
	if err == nil {
		err = c.fill(ctx, cancel)
	}
	for _, failure := range c.failures {
		t.Error(failure)
	}
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d faults in %s: %d writes acknowledged, %d lost, %d repeated\n%s",
		c.faults, time.Since(began).Round(time.Second), c.count.acknowledged, c.count.lost, c.count.repeated, c.print())
	if c.count.lost > 0 || c.count.repeated > 0 {
		t.Errorf("%d writes lost, %d repeated", c.count.lost, c.count.repeated)
	}
	if missing := c.missing(); len(missing) > 0 && !t.Failed() {
		t.Errorf("never hit: %v", missing)
	}
}

// selected returns the modes to try.
func selected() []mode {
	if *onlyMode == "" {
		return modes
	}
	return []mode{mode(*onlyMode)}
}

func (c *campaign) teller(s story, name string) *teller {
	return &teller{story: s, programs: c.programs, dir: filepath.Join(c.dir, strings.ReplaceAll(s.name+"-"+name, " ", "-"))}
}

// close ends a teller and adds its numbers.
func (c *campaign) close(s *teller) error {
	err := s.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count.add(s.count)
	return err
}

// undisturbed notes which operations there are.
func (c *campaign) undisturbed(ctx context.Context, s story) error {
	teller := c.teller(s, "undisturbed")
	_, ops, err := teller.tell(ctx, nil)
	for _, op := range ops {
		if k := (cell{kind: op.Kind, role: op.Role}); c.seen[k] == "" {
			c.seen[k] = s.name
		}
	}
	return errors.Join(err, c.close(teller))
}

// sweep lets a mode befall one operation after the other, until the story has no more of them.
func (c *campaign) sweep(ctx context.Context, cancel context.CancelFunc, s story, m mode) error {
	teller := c.teller(s, string(m))
	stride, n := strides[m], 1
	if *complete {
		stride = 1
	}
	n += int(c.seed % uint64(stride))
	for hit := true; hit && ctx.Err() == nil; n += stride {
		hit = c.try(ctx, cancel, teller, m, n, nth(n))
	}
	return c.close(teller)
}

// try tells a story with one fault, and reports whether it befell an operation, or could not be told.
func (c *campaign) try(ctx context.Context, cancel context.CancelFunc, s *teller, m mode, n int, at func(*Operation) bool) bool {
	hit, _, err := s.tell(ctx, &fault{mode: m, at: at, seed: c.seed + uint64(n)})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			c.failures = append(c.failures, fmt.Errorf("-seed=%d -only='%s/%s/%d': %w", c.seed, s.name, m, n, err))
		}
		if len(c.failures) >= maxFailures {
			cancel()
		}
		return true
	}
	if hit != nil {
		c.faults++
		c.table[cell{hit.Kind, hit.Role, m}]++
	}
	return hit != nil
}

// one tries the fault that a failure has named.
func (c *campaign) one(ctx context.Context, name string) error {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return fmt.Errorf("-only=%s is not story/mode/number", name)
	}
	i := slices.IndexFunc(stories, func(s story) bool { return s.name == parts[0] })
	var n int
	if _, err := fmt.Sscan(parts[2], &n); err != nil || i < 0 || !slices.Contains(modes, mode(parts[1])) {
		return fmt.Errorf("-only=%s is not story/mode/number", name)
	}
	teller := c.teller(stories[i], parts[1])
	hit, ops, err := teller.tell(ctx, &fault{mode: mode(parts[1]), at: nth(n), seed: c.seed + uint64(n)})
	for _, op := range ops {
		fmt.Println(&op)
	}
	fmt.Println("hit:", hit)
	return errors.Join(err, c.close(teller))
}

// missing returns what was seen in an undisturbed run and not hit in each mode.
func (c *campaign) missing() []cell {
	var missing []cell
	for k := range c.seen {
		for _, m := range selected() {
			k.mode = m
			if m.takes(&Operation{Kind: k.kind, Role: k.role, Length: 2}) && c.table[k] == 0 {
				missing = append(missing, k)
			}
		}
	}
	slices.SortFunc(missing, func(a, b cell) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return missing
}

// fill hits on purpose what the sweeps have left out.
func (c *campaign) fill(ctx context.Context, cancel context.CancelFunc) error {
	var group errgroup.Group
	group.SetLimit(*workers)
	for i, k := range c.missing() {
		group.Go(func() error {
			s := stories[slices.IndexFunc(stories, func(s story) bool { return s.name == c.seen[cell{kind: k.kind, role: k.role}] })]
			teller := c.teller(s, fmt.Sprintf("%s-%d", k.mode, i))
			for range attempts {
				if ctx.Err() != nil || c.try(ctx, cancel, teller, k.mode, 0, firstOf(k.kind, k.role)) {
					break
				}
			}
			return c.close(teller)
		})
	}
	return group.Wait()
}

// print shows how often each mode has befallen each operation.
func (c *campaign) print() string {
	rows := make(map[cell]bool)
	for k := range c.table {
		rows[cell{kind: k.kind, role: k.role}] = true
	}
	for k := range c.seen {
		rows[k] = true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s", "operation")
	for _, m := range modes {
		fmt.Fprintf(&b, " %16s", m)
	}
	fmt.Fprintln(&b)
	sums := make(map[mode]int)
	for _, k := range slices.SortedFunc(maps.Keys(rows), func(a, b cell) int {
		return cmp.Or(strings.Compare(string(a.role), string(b.role)), strings.Compare(string(a.kind), string(b.kind)))
	}) {
		fmt.Fprintf(&b, "%-20s", fmt.Sprintf("%s %s", k.kind, k.role))
		for _, m := range modes {
			k.mode = m
			count := fmt.Sprint(c.table[k])
			if c.table[k] == 0 && !m.takes(&Operation{Kind: k.kind, Role: k.role, Length: 2}) {
				count = "-"
			}
			sums[m] += c.table[k]
			fmt.Fprintf(&b, " %16s", count)
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "%-20s", "all")
	for _, m := range modes {
		fmt.Fprintf(&b, " %16d", sums[m])
	}
	return b.String()
}
