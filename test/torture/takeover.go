package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/test/invariant"
	"kubejournal/test/proxy"
	"kubejournal/test/replicas"
)

// Teams of two replicas each, which all journal the same streams, each team with a Lease of its own. With short times,
// so that many takeovers fit in a run: what is between them is the same.
const (
	teams         = 6
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 500 * time.Millisecond
	// beyond is how much later than leaseDuration the next leader is to write its first line, in 99 of 100 cases.
	beyond = 2 * time.Second
)

// What ends a leader's term.
const (
	leaderKilled    = "leader killed (SIGKILL)"
	leaderStopped   = "leader stopped (SIGTERM)"
	leaderSuspended = "leader suspended past its lease (SIGSTOP, SIGCONT)"
	leaderCut       = "leader cut off from the API server"
	leaderAndServer = "leader killed while the API server restarts"
)

// team is two replicas, of which one writes.
type team struct {
	*bench
	lease    string
	replicas []*replica
	random   *rand.Rand
	begins   map[uint64]time.Time // before each term's leader wrote
	ends     map[uint64]end       // of each term's leader
	silences []time.Duration      // from then to the first line of the next, where the server was well
	times    map[string]int
}

// end is how a leader's term ended.
type end struct {
	at   time.Time
	well bool // the server was: the leader could publish until then
}

// replica is a daemon with a way to the server of its own.
type replica struct {
	*daemon
	way *proxy.Proxy
}

// takeovers ends leaders' terms, so many times, while writers churn.
func (b *bench) takeovers(ctx context.Context) error {
	var all []*team
	defer func() {
		for _, t := range all {
			t.close()
		}
	}()
	for n := range teams {
		t, err := b.newTeam(n)
		if t != nil {
			all = append(all, t)
		}
		if err != nil {
			return err
		}
	}
	writers := b.churn(ctx, "takeover", b.options.rate, b.options.seed)
	group, limited := errgroup.WithContext(ctx)
	left := make(chan int, b.options.takeovers)
	for i := range b.options.takeovers {
		left <- i + 1
	}
	close(left)
	var serverMu sync.Mutex // held while the server restarts
	for _, t := range all {
		group.Go(func() error {
			for n := range left {
				if err := t.takeover(limited, &serverMu); err != nil {
					return err
				}
				if n%50 == 0 {
					b.say("%d takeovers", n)
				}
			}
			return nil
		})
	}
	err := group.Wait()
	writers.Stop()
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if err := eventually(ctx, "settle", func() error { return b.Settle(ctx) }); err != nil {
		return err
	}
	for _, t := range all {
		if err := b.follow(ctx, t.replicas[0].daemon, t.replicas[1].daemon); err != nil {
			return err
		}
		for _, r := range t.replicas {
			if err := b.stop(r.daemon); err != nil {
				return err
			}
		}
		p, err := t.verify(ctx)
		if err != nil {
			return err
		}
		b.report.add(p)
		b.report.addTeam(t)
		if p.fault != nil {
			return p.fault
		}
	}
	return nil
}

func (b *bench) newTeam(n int) (*team, error) {
	name := fmt.Sprint("team-", n)
	t := &team{
		bench: b, lease: namespaces[0] + "/" + name, random: rand.New(rand.NewPCG(b.options.seed, uint64(n))),
		begins: make(map[uint64]time.Time), ends: make(map[uint64]end), times: make(map[string]int),
	}
	here, err := proxied(b.cluster)
	if err != nil {
		return nil, err
	}
	for i := range 2 {
		way, err := proxy.Start(here, proxy.Options{})
		if err != nil {
			return t, fmt.Errorf("start proxy: %w", err)
		}
		r := &replica{way: way}
		t.replicas = append(t.replicas, r)
		dir := filepath.Join(b.dir, fmt.Sprintf("team-%d-%c", n, 'a'+i))
		kubeconfig, err := b.leadThrough(way, dir+".kubeconfig")
		if err != nil {
			return t, err
		}
		r.daemon, err = newDaemon(b, dir, map[string]any{
			"kubernetes": map[string]any{"kubeconfig": kubeconfig},
			"leaderElection": map[string]any{
				"leaseName": name, "leaseNamespace": namespaces[0], "leaseDuration": leaseDuration.String(),
				"renewDeadline": renewDeadline.String(), "retryPeriod": retryPeriod.String(),
			},
		})
		if err == nil {
			err = r.launch()
		}
		if err != nil {
			return t, err
		}
	}
	return t, nil
}

// leadThrough writes a kubeconfig that leads through a proxy.
func (b *bench) leadThrough(way *proxy.Proxy, path string) (string, error) {
	config, err := clientcmd.LoadFromFile(b.cluster.Kubeconfig())
	if err != nil {
		return "", fmt.Errorf("read kubeconfig: %w", err)
	}
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthorityData = way.URL(), way.Authority()
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return path, nil
}

func (t *team) close() {
	for _, r := range t.replicas {
		if r.daemon != nil && r.process != nil {
			r.process.End()
		}
		r.way.Close()
	}
}

// takeover ends the leader's term in one way or the other, and waits until the other replica writes.
func (t *team) takeover(ctx context.Context, serverMu *sync.Mutex) error {
	leader, next, term, err := t.leader(ctx)
	if err != nil || !pass(ctx, upTo(t.random, 1500*time.Millisecond)) {
		return err
	}
	kind := []string{leaderKilled, leaderKilled, leaderStopped, leaderSuspended, leaderCut,
		leaderAndServer}[t.random.IntN(6)]
	if kind == leaderAndServer && t.random.IntN(4) > 0 {
		kind = leaderKilled // a restart disturbs every team
	}
	t.times[kind]++
	var mend func() error
	at := time.Now()
	t.ends[term] = end{at: at, well: !t.trouble.since(at.Add(-leaseDuration))}
	switch kind {
	case leaderStopped:
		mend = leader.launch
		err = t.stop(leader.daemon)
	case leaderSuspended:
		mend = func() error { return leader.process.Signal(syscall.SIGCONT) }
		err = leader.process.Signal(syscall.SIGSTOP)
	case leaderCut:
		mend = func() error { leader.way.Set(); return nil }
		leader.way.Set(proxy.Fault{Hold: true})
	case leaderAndServer:
		mend = leader.launch
		err = errors.Join(t.kill(leader.daemon), t.restartServer(ctx, serverMu))
	default:
		mend = leader.launch
		err = t.kill(leader.daemon)
	}
	if err != nil {
		return err
	}
	silent := at // until when it had written nothing
	err = eventually(ctx, "first line of the next leader", func() error {
		looked := time.Now()
		if err := t.keepUp(next.daemon); err != nil {
			return err
		}
		now, err := next.term()
		if err != nil || now <= term {
			silent = looked
			return errors.Join(fmt.Errorf("%s: it is at term %d", filepath.Base(next.dir), now), err)
		}
		t.begins[now] = silent
		return nil
	})
	if err != nil {
		return err
	}
	if !t.trouble.since(at.Add(-leaseDuration)) {
		t.silences = append(t.silences, time.Since(at))
	}
	return mend()
}

// restartServer restarts the API server; one team at a time does.
func (t *team) restartServer(ctx context.Context, mu *sync.Mutex) error {
	mu.Lock()
	defer mu.Unlock()
	return t.disturb(ctx, faultNamed("API server restarted (SIGTERM)"), t.random)
}

// leader waits until one replica writes and the other one is ready.
func (t *team) leader(ctx context.Context) (leader, next *replica, term uint64, err error) {
	err = eventually(ctx, "a leader and a standby", func() error {
		leader, next = nil, nil
		for _, r := range t.replicas {
			if err := t.keepUp(r.daemon); err != nil {
				return err
			}
			if err := r.process.Ready(ctx); err != nil {
				return err
			}
			m, err := r.process.Metrics(ctx)
			if err != nil {
				return err
			}
			if m[fmt.Sprintf("kubejournal_leader{lease=%q}", t.lease)] == 1 {
				leader = r
			} else {
				next = r
			}
		}
		if leader == nil || next == nil {
			return errors.New("both lead, or none does")
		}
		var err error
		term, err = leader.term()
		if err == nil && term == 0 {
			err = errors.New("nothing is written yet")
		}
		return err
	})
	return leader, next, term, err
}

// term is that of the journal's last line; 0 is none.
func (r *replica) term() (uint64, error) {
	data, err := os.ReadFile(r.journal())
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	_, number, found := bytes.Cut(data[max(0, bytes.LastIndex(data, []byte(`,"term":`))):], []byte(`,"term":`))
	if err != nil || !found {
		return 0, err
	}
	end := bytes.IndexByte(number, ',')
	if end < 0 {
		return 0, nil // it is being written
	}
	return strconv.ParseUint(string(number[:end]), 10, 64)
}

// verify reads what both replicas have written, and proves it together.
func (t *team) verify(ctx context.Context) (p proof, err error) {
	var raw invariant.Replicas
	last := make(map[uint64]time.Time) // of a term: when its last line was received
	for _, r := range t.replicas {
		lines, whole := p.read(r.journal(), false)
		if !whole {
			return p, nil
		}
		for _, l := range lines {
			if at, err := time.Parse(time.RFC3339Nano, l.Time); err == nil && at.After(last[l.Term]) {
				last[l.Term] = at
			}
		}
		p.fault = errors.Join(p.fault, invariant.Sequence(lines, 1))
		raw.Journals = append(raw.Journals, lines)
	}
	lines, err := replicas.Merge(raw.Journals...)
	if err != nil {
		return p, err
	}
	p.fault = errors.Join(p.fault, raw.Terms(), raw.Once(), raw.Kept(lines), raw.Source(lines))
	if err := t.readAsOne(ctx, lines); err != nil {
		p.fault = errors.Join(p.fault, err)
	}
	lines = lighten(lines)
	dropOld(lines)
	tooOld := 0
	for _, pair := range raw.Repeated() {
		// The leader before may have received it later than the one that holds it did, as after a list.
		l, at := &pair[1], time.Time{}
		for i := range pair {
			received, err := time.Parse(time.RFC3339Nano, pair[i].Time)
			if err != nil {
				return p, fmt.Errorf("%s: %w", pair[i].Where, err)
			}
			if received.After(at) {
				at = received
			}
		}
		term := t.before(l.Term)
		end := t.ends[term]
		if began := t.begins[term]; at.Before(began) {
			at = began // it was held until then
		}
		oldest := &p.oldest
		if !end.well {
			p.unpublished++
			oldest = &p.oldestUnpublished
		}
		p.again++
		// What ended after it had written its last line may have had nothing to publish for long, or no server to
		// publish to.
		age := end.at.Sub(at)
		if until, wrote := last[term]; wrote && until.Before(end.at) {
			age = until.Sub(at)
		}
		*oldest = max(*oldest, age)
		if end.well && age > retryPeriod+t.options.interval {
			p.older++
		}
		// A leader writes no longer than renewDeadline after what it has published last.
		if age > renewDeadline+t.options.interval+commitSlack {
			if tooOld++; tooOld <= 10 {
				p.fault = errors.Join(p.fault,
					fmt.Errorf("%s repeats %s from %s before the takeover", l.Where, l.ID, age))
			}
		}
	}
	err = t.judge(ctx, lines, &p)
	return p, err
}

// readAsOne checks that kubejournal history shows the journals of both replicas as these lines.
func (t *team) readAsOne(ctx context.Context, lines []invariant.Line) error {
	cmd := exec.CommandContext(ctx, t.program, "history", "*", "-A", "--all", "-o", "json")
	for _, r := range t.replicas {
		cmd.Args = append(cmd.Args, "--journal", r.journal())
	}
	out, err := cmd.Output()
	// 3: there were outages
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() != 3 ||
		err != nil && exit.ProcessState == nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, exit.Stderr)
	}
	shown, err := invariant.Parse("history", 1, out)
	if err != nil {
		return err
	}
	for n := range max(len(shown), len(lines)) {
		var got, want string
		if n < len(shown) {
			got = shown[n].Stream + " " + shown[n].ID
		}
		if n < len(lines) {
			want = lines[n].Stream + " " + lines[n].ID
		}
		if got != want {
			return fmt.Errorf("line %d of what history shows of both journals is %q, want %q", n+1, got, want)
		}
	}
	return nil
}

// before is the last term before one that was seen.
func (t *team) before(term uint64) (last uint64) {
	for at := range t.ends {
		if at < term {
			last = max(last, at)
		}
	}
	return last
}

// addTeam takes in what happened to a team.
func (r *report) addTeam(t *team) {
	r.silences = append(r.silences, t.silences...)
	for name, n := range t.times {
		r.times[name] += n
	}
}

func percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)].Round(10 * time.Millisecond)
}

// takeoverRows are the table's rows about takeovers.
func (r *report) takeoverRows(row func(string, any, ...any)) {
	if r.options.takeovers == 0 {
		return
	}
	row("from a leader's end to the next one's first line", percentile(r.silences, 50),
		fmt.Sprintf("the median of %d where the API server was well; p99 %s, at most %s; goal for p99: leaseDuration "+
			"(%s) and %s",
			len(r.silences), percentile(r.silences, 99), percentile(r.silences, 100), leaseDuration, beyond))
	row("repeated over takeovers, by known ids", r.proven.again,
		fmt.Sprintf("the oldest %s before its leader's end or last line, and %d of them from longer before it than "+
			"retryPeriod (%s) and the checkpoint interval (%s)",
			r.proven.oldest.Round(time.Millisecond), r.proven.older, retryPeriod, r.options.interval))
	row("  of these, while the API server was disturbed", r.proven.unpublished,
		fmt.Sprintf("and nothing could be published; the oldest %s",
			r.proven.oldestUnpublished.Round(time.Millisecond)))
}

// merged are the keys of a config with others in their place.
func merged(config, others map[string]any) map[string]any {
	maps.Copy(config, others)
	return config
}
