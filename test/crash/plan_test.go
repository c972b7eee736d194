//go:build linux && amd64

package crash

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// mode is a way in which an operation goes wrong.
type mode string

const (
	killBefore mode = "kill before"
	killAfter  mode = "kill after"
	fails      mode = "fails"           // once
	failsOn    mode = "fails for long"  // all of its kind, until the daemon has said so
	doneFails  mode = "done, but fails" // once
	isShort    mode = "short"           // a write; the next one finds no space
	powerCut   mode = "power cut"       // after it, and nothing is left that was not synced
	powerPart  mode = "power, parts"    // after it, and any part is left of what was not synced
	syncLost   mode = "sync loses"      // a sync fails and takes what it was for with it; a power cut comes later
)

var modes = []mode{killBefore, killAfter, fails, failsOn, doneFails, isShort, powerCut, powerPart, syncLost}

// takes reports whether the mode can befall such an operation.
func (m mode) takes(op *Operation) bool {
	switch m {
	case isShort:
		return op.Kind == Write && op.Length > 1
	case syncLost:
		return op.Kind == Sync && op.Role != Folder
	}
	return true
}

// kills reports whether the daemon is killed, and not only hindered.
func (m mode) kills() bool {
	return slices.Contains([]mode{killBefore, killAfter, powerCut, powerPart, syncLost}, m)
}

// cuts reports whether the folder is put back.
func (m mode) cuts() bool { return m == powerCut || m == powerPart || m == syncLost }

// laterBy is how many operations after a sync that lost something the power is cut, at most.
const laterBy = 12

// fault is what is to happen in one run.
type fault struct {
	mode mode
	at   func(*Operation) bool // asked about each operation that the mode takes, until it says so
	seed uint64                // of what is random
}

// nth is the operation that is the nth one the mode takes.
func nth(n int) func(*Operation) bool {
	return func(*Operation) bool { n--; return n == 0 }
}

// firstOf is the first operation of a kind on a file of a role.
func firstOf(k Kind, r Role) func(*Operation) bool {
	return func(op *Operation) bool { return op.Kind == k && op.Role == r }
}

// plan carries out one fault, and notes all operations.
type plan struct {
	fault *fault // nil: none
	image *Image // nil where nothing will be put back
	log   string // path of the daemon's log
	rand  *rand.Rand

	mu       sync.Mutex // guards all below
	ops      []Operation
	fired    *Operation
	firedAt  time.Time
	running  bool // the daemon had begun to run when the fault came
	failures int  // operations made to fail
	healed   bool
	next     bool // a short write was made: the next write on such a file fails
	later    int  // operations until the power is cut; 0: not to be cut
	err      error
}

func newPlan(f *fault, log string) *plan {
	p := &plan{fault: f, log: log}
	if f != nil {
		p.rand = rand.New(rand.NewPCG(f.seed, 0))
	}
	return p
}

func (p *plan) Begin(op *Operation) Verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ops = append(p.ops, *op)
	if p.image != nil {
		if err := p.image.Begin(op); err != nil {
			p.err = fmt.Errorf("%s: %w", op, err)
			return Verdict{Kill: true}
		}
	}
	if p.fault == nil {
		return Verdict{}
	}
	if p.fired != nil {
		return p.again(op)
	}
	if !p.fault.mode.takes(op) || !p.fault.at(op) {
		return Verdict{}
	}
	copied := *op
	p.fired, p.firedAt = &copied, time.Now()
	log, err := os.ReadFile(p.log)
	if err != nil {
		p.err = err
	}
	p.running = running(log)
	switch p.fault.mode {
	case killBefore:
		return Verdict{Kill: true}
	case fails, failsOn:
		p.failures++
		return Verdict{Fail: p.errno(op)}
	case isShort:
		p.next = true
		return Verdict{Short: 1 + p.rand.Int64N(op.Length-1)}
	}
	return Verdict{}
}

// again is what the fault does to operations after the first.
func (p *plan) again(op *Operation) Verdict {
	like := op.Kind == p.fired.Kind && op.Role == p.fired.Role
	switch {
	case p.next && like:
		p.next = false
		p.failures++
		return Verdict{Fail: syscall.ENOSPC}
	case p.fault.mode == failsOn && like && !p.healed:
		p.failures++
		return Verdict{Fail: p.errno(op)}
	}
	return Verdict{}
}

// errno is how an operation fails that is not done.
func (p *plan) errno(op *Operation) syscall.Errno {
	switch op.Kind {
	case Write, Create, Allocate, Link, Rename:
		return []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EROFS}[p.rand.IntN(3)]
	case Sync:
		return []syscall.Errno{syscall.ENOSPC, syscall.EIO}[p.rand.IntN(2)]
	}
	return syscall.EIO
}

func (p *plan) End(op *Operation) Verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ops[len(p.ops)-1].Result = op.Result
	first := p.fired != nil && p.fired.N == op.N
	v := p.verdict(first)
	if p.image != nil {
		seen := *op
		if v.Fail != 0 && p.fault.mode == syncLost {
			seen.Result = -int64(v.Fail)
		}
		if err := p.image.End(&seen); err != nil {
			p.err = fmt.Errorf("%s: %w", op, err)
			return Verdict{Kill: true}
		}
	}
	return v
}

// verdict is what becomes of an operation that was done, the first that the fault befalls or a later one.
func (p *plan) verdict(first bool) Verdict {
	if p.fired == nil {
		return Verdict{}
	}
	if p.later > 0 {
		p.later--
		return Verdict{Kill: p.later == 0}
	}
	if !first {
		return Verdict{}
	}
	switch p.fault.mode {
	case killAfter, powerCut, powerPart:
		return Verdict{Kill: true}
	case doneFails:
		p.failures++
		return Verdict{Fail: syscall.EIO}
	case syncLost:
		p.failures++
		p.later = 1 + p.rand.IntN(laterBy)
		return Verdict{Fail: syscall.EIO}
	}
	return Verdict{}
}

// heal ends a fault that lasts.
func (p *plan) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.healed = true
}

// keep is what a power cut leaves of what was not synced.
func (p *plan) keep() Keep {
	if p.fault.mode != powerPart {
		return Keep{Names: func(int) int { return 0 }, Change: func() bool { return false }}
	}
	return Keep{Names: func(n int) int { return p.rand.IntN(n + 1) }, Change: func() bool { return p.rand.IntN(2) == 0 }}
}

// state is where a plan stands.
type state struct {
	fired    *Operation
	since    time.Duration
	running  bool
	failures int
	lasting  bool // the fault continues
	err      error
}

func (p *plan) state() state {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := state{fired: p.fired, running: p.running, failures: p.failures, err: p.err}
	if p.fired != nil {
		s.since = time.Since(p.firedAt)
		s.lasting = p.fault.mode == failsOn && !p.healed
	}
	return s
}

func (p *plan) operations() []Operation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ops)
}

// trace shows the last operations.
func (p *plan) trace() string {
	const shown = 40
	var b bytes.Buffer
	ops := p.operations()
	for i := range ops[max(0, len(ops)-shown):] {
		fmt.Fprintln(&b, "   ", &ops[max(0, len(ops)-shown)+i])
	}
	return b.String()
}

// isVital reports whether readiness and the counters must tell of the failure of an operation.
func isVital(op *Operation) bool {
	switch op.Role {
	case Journal:
		return op.Kind == Write || op.Kind == Sync
	case Checkpoint:
		return op.Kind == Write || op.Kind == Sync || op.Kind == Truncate || op.Kind == Allocate
	}
	return false
}
