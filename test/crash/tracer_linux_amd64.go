package crash

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Command is what to run.
type Command struct {
	Confine string // path of the program built from ./confine
	Args    []string
	Env     []string
	Dir     string
	Stderr  *os.File
	Folder  string // absolute; what happens in it is numbered
}

// Process is a traced run. It ends with the test process at the latest.
type Process struct {
	pid    int
	done   chan struct{} // closed when it has ended
	status unix.WaitStatus
	err    error // of the tracer: the run then proves nothing
}

// Start starts the command under a plan. It returns once the command runs or could not be started.
func Start(c Command, plan Plan) (*Process, error) {
	p := &Process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// All ptrace calls come from the thread that started the process. It is not unlocked, so that it ends with
		// this goroutine and nothing of its state reaches another.
		runtime.LockOSThread()
		t := &tracer{folder: c.Folder, plan: plan}
		if err := t.start(c); err != nil {
			started <- err
			return
		}
		p.pid = t.pid
		started <- nil
		p.status, p.err = t.run()
		close(p.done)
	}()
	return p, <-started
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive reports whether the process has not ended yet.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal; one to a process that has ended is lost. Until Done nobody but the tracer could reap it, so
// that the pid is its own but for the instant in which Done is closed.
func (p *Process) Signal(s unix.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := unix.Kill(p.pid, s); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process: %w", err)
	}
	return nil
}

// Status is how the process ended, after Done. An error means that it was not traced to its end.
func (p *Process) Status() (unix.WaitStatus, error) { return p.status, p.err }

// tracer is one traced process, owned by the thread that started it.
type tracer struct {
	folder string
	plan   Plan
	pid    int
	n      int // operations so far
	known  map[int]bool
	killed bool

	current *step
	held    []int // threads that wait for their operation to begin
}

// step is the operation under way.
type step struct {
	tid    int
	op     *Operation
	failed unix.Errno // it is not done and returns this
	length uint64     // of a write that was made short: the argument to put back
}

func (t *tracer) start(c Command) error {
	process, err := os.StartProcess(c.Confine, append([]string{c.Confine}, c.Args...), &os.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: []*os.File{nil, c.Stderr, c.Stderr},
		Sys: &unix.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("start traced process: %w; ptrace is not permitted here (seccomp profile, yama or a "+
			"lacking capability)", err)
	}
	if err != nil {
		return fmt.Errorf("start traced process: %w", err)
	}
	t.pid = process.Pid
	t.known = map[int]bool{t.pid: true}
	_ = process.Release() // the loop waits for it
	var ws unix.WaitStatus
	if _, err := unix.Wait4(t.pid, &ws, unix.WALL, nil); err != nil {
		return fmt.Errorf("wait for traced process: %w", err)
	}
	if !ws.Stopped() {
		return fmt.Errorf("start traced process: it did not stop for its tracer (wait status %#x)", int(ws))
	}
	options := unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC |
		unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(t.pid, options); err != nil {
		_ = unix.Kill(t.pid, unix.SIGKILL)
		_, _ = unix.Wait4(t.pid, &ws, unix.WALL, nil)
		return fmt.Errorf("set options of tracing: %w; the kernel needs seccomp and ptrace", err)
	}
	return unix.PtraceCont(t.pid, 0)
}

// run serves the process's stops until it has ended.
func (t *tracer) run() (unix.WaitStatus, error) {
	var fault error
	for {
		var ws unix.WaitStatus
		// __WNOTHREAD: other tracers and os/exec have children of their own.
		tid, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, fmt.Errorf("wait for traced process: %w", err)
		case !ws.Stopped() && tid == t.pid:
			return ws, fault
		case !ws.Stopped():
			delete(t.known, tid)
			continue
		}
		// A thread that is gone was killed with the process, which shows next.
		if err := t.stopped(tid, ws); err != nil && !errors.Is(err, unix.ESRCH) && !t.killed {
			fault = err
			t.kill()
		}
	}
}

func (t *tracer) kill() {
	t.killed = true
	_ = unix.Kill(t.pid, unix.SIGKILL)
}

func (t *tracer) stopped(tid int, ws unix.WaitStatus) error {
	signal, event := ws.StopSignal(), int(ws)>>16
	first := !t.known[tid]
	t.known[tid] = true
	switch {
	case signal == unix.SIGTRAP && event == unix.PTRACE_EVENT_SECCOMP:
		return t.reach(tid)
	case signal == unix.SIGTRAP|0x80:
		if t.current == nil || t.current.tid != tid {
			return fmt.Errorf("thread %d stops at the end of an operation that it has not begun", tid)
		}
		return t.end()
	case signal == unix.SIGTRAP, signal == unix.SIGSTOP && first:
		return t.proceed(tid, 0)
	}
	return t.proceed(tid, int(signal))
}

// proceed lets a thread run on, to the end of its operation where it has one.
func (t *tracer) proceed(tid, signal int) error {
	if t.current != nil && t.current.tid == tid {
		return unix.PtraceSyscall(tid, signal)
	}
	return unix.PtraceCont(tid, signal)
}

// reach is called where a thread is about to enter a call that the filter reports.
func (t *tracer) reach(tid int) error {
	if t.killed {
		return nil // stays where it is until the kill has come to it
	}
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	op, err := t.operation(tid, &regs)
	if err != nil {
		return err
	}
	if op == nil {
		return unix.PtraceCont(tid, 0)
	}
	if t.current != nil {
		t.held = append(t.held, tid)
		return nil
	}
	return t.begin(tid, op, &regs)
}

func (t *tracer) begin(tid int, op *Operation, regs *unix.PtraceRegs) error {
	t.n++
	op.N = t.n
	t.current = &step{tid: tid, op: op, length: regs.Rdx}
	v := t.plan.Begin(op)
	switch {
	case v.Kill:
		// Before the kill, or it might be done on the way out.
		regs.Orig_rax = ^uint64(0)
		err := unix.PtraceSetRegs(tid, regs)
		t.kill()
		return err
	case v.Fail != 0:
		t.current.failed = v.Fail
		regs.Orig_rax = ^uint64(0)
		regs.Rax = uint64(-int64(v.Fail))
	case v.Short > 0 && op.Kind == Write:
		regs.Rdx = uint64(v.Short)
	}
	if err := unix.PtraceSetRegs(tid, regs); err != nil {
		return err
	}
	return unix.PtraceSyscall(tid, 0)
}

func (t *tracer) end() error {
	if t.killed {
		return nil
	}
	s := t.current
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(s.tid, &regs); err != nil {
		return err
	}
	if s.op.Kind == Write {
		regs.Rdx = s.length
	}
	if s.failed != 0 {
		regs.Rax = uint64(-int64(s.failed))
	}
	s.op.Result = int64(regs.Rax)
	v := t.plan.End(s.op)
	if v.Kill {
		t.kill()
		return nil
	}
	if v.Fail != 0 {
		regs.Rax = uint64(-int64(v.Fail))
	}
	if err := unix.PtraceSetRegs(s.tid, &regs); err != nil {
		return err
	}
	t.current = nil
	if err := unix.PtraceCont(s.tid, 0); err != nil {
		return err
	}
	// What the held threads are about to do is looked at anew: the names may have changed.
	for t.current == nil && len(t.held) > 0 {
		next := t.held[0]
		t.held = t.held[1:]
		if err := t.reach(next); err != nil {
			return err
		}
	}
	return nil
}
