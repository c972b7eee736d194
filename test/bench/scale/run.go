package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// runLimit is how long a step of a run may take.
const runLimit = 5 * time.Minute

// measure does the runs that the options name.
func measure(ctx context.Context, o options, out, notes io.Writer) (err error) {
	b, err := newBench(ctx, o, out, notes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	runs := []struct {
		name string
		run  func(context.Context, string) error
	}{
		{"streamed", func(ctx context.Context, name string) error { return b.sync(ctx, name, true) }},
		{"paged", func(ctx context.Context, name string) error { return b.sync(ctx, name, false) }},
		{"informer", b.informer},
		{"idle", b.idle},
		{"blocked", b.blocked},
		{"clusters", b.clusters},
		{"definitions", b.definitions},
		{"gzip-on", func(ctx context.Context, name string) error { return b.lists(ctx, name, true) }},
		{"gzip-off", func(ctx context.Context, name string) error { return b.lists(ctx, name, false) }},
	}
	for _, r := range runs {
		if !o.run.MatchString(r.name) {
			continue
		}
		fmt.Fprintf(notes, "# %s\n", r.name)
		if err := r.run(ctx, r.name); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

func mebibytes(n int64) float64 { return float64(n) / mib }

// flags are the server's for a world.
func (w world) flags(stream bool) []string {
	return []string{
		"-objects", strconv.Itoa(w.objects), "-namespace", strconv.Itoa(w.namespace), "-generation",
		strconv.Itoa(w.generation), "-size", strconv.Itoa(w.size), "-stream=" + strconv.FormatBool(stream),
	}
}

func worldOf(objects int) world {
	return world{objects: objects, namespace: 1000, generation: 1, size: 1024}
}

// sync measures the first sync of all objects, some starts with all of them known, and the relist where the server has
// lost the history and one in a hundred objects has changed.
func (b *bench) sync(ctx context.Context, name string, streamed bool) error {
	d, err := b.newDaemon(name)
	if err != nil {
		return err
	}
	w := worldOf(b.options.objects)
	at := "/objects=" + strconv.Itoa(w.objects) + "/way=kubejournal"
	first, err := b.serve(d.dir, w.flags(streamed)...)
	if err != nil {
		return err
	}
	defer first.end()
	if err := b.syncOnce(ctx, d, first, "run=first-sync-"+name+at); err != nil {
		return err
	}
	r := newReplay(w)
	if err := errors.Join(r.files(d.journal), r.check(w.difference())); err != nil {
		return err
	}
	if size, err := os.Stat(d.checkpoint()); err == nil {
		fmt.Fprintf(b.notes, "# checkpoint: %.1f bytes per object\n", float64(size.Size())/float64(w.objects))
	}
	for range b.options.starts {
		if err := b.resume(ctx, d, first, "run=resume"+at); err != nil {
			return err
		}
	}
	first.end()
	w.generation = 2
	second, err := b.serve(d.dir, w.flags(streamed)...)
	if err != nil {
		return err
	}
	defer second.end()
	if err := b.syncOnce(ctx, d, second, "run=relist-"+name+at); err != nil {
		return err
	}
	r = newReplay(w)
	if err := r.files(d.journal); err != nil {
		return err
	}
	if err := r.check(w.difference()); err != nil {
		return err
	}
	if r.lines["GAP"] != 1 || r.lines["SYNCED"] != 2 {
		return fmt.Errorf("the journal has lines %v where 1 GAP and 2 SYNCED should be", r.lines)
	}
	if b.options.keep {
		return nil
	}
	return os.RemoveAll(d.dir)
}

// syncOnce runs the daemon until it is synced.
func (b *bench) syncOnce(ctx context.Context, d *daemon, s *running, name string) error {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	before, err := s.stats(ctx)
	if err != nil {
		return err
	}
	p, err := d.start(nil)
	if err != nil {
		return err
	}
	defer p.end()
	if err := awaitSynced(ctx, p, max(1, d.streams)); err != nil {
		return err
	}
	wall := time.Since(p.Started())
	after, err := s.stats(ctx)
	if err != nil {
		return err
	}
	if err := p.Stop(stopLimit); err != nil {
		return err
	}
	b.line(name, mebibytes(p.peaks().anon), "rss-anon-MiB", wall.Seconds(), "wall-s", p.cpu(), "cpu-s",
		mebibytes(after.Sent-before.Sent), "wire-MiB")
	return nil
}

// resume measures the time from the process's start to its watch at the server.
func (b *bench) resume(ctx context.Context, d *daemon, s *running, name string) error {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	p, err := d.start(nil)
	if err != nil {
		return err
	}
	defer p.end()
	watch, err := s.await(ctx, func(a asked) bool {
		return a.Verb == "watch" && a.At > p.Started().UnixNano()
	})
	if err != nil {
		return p.Fault(err)
	}
	if want := strconv.FormatUint(s.version(d), 10); watch.Initial || watch.ResourceVersion != want {
		return p.Fault(fmt.Errorf("the watch began at version %q, with a list: %v; it should resume at %s",
			watch.ResourceVersion, watch.Initial, want))
	}
	if err := p.Stop(stopLimit); err != nil {
		return err
	}
	b.line(name, time.Unix(0, watch.At).Sub(p.Started()).Seconds(), "start-s", mebibytes(p.peaks().anon),
		"rss-anon-MiB", p.cpu(), "cpu-s")
	return nil
}

// version is that of the first generation, at which a daemon resumes.
func (s *running) version(d *daemon) uint64 { return worldOf(d.bench.options.objects).version() }

// informer measures the baseline.
func (b *bench) informer(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	w := worldOf(b.options.informer)
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	s, err := b.serve(dir, w.flags(true)...)
	if err != nil {
		return err
	}
	defer s.end()
	told, stdout, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start informer: %w", err)
	}
	defer told.Close()
	p, err := launch(dir, name, stdout, b.self, roleInform, "-kubeconfig", filepath.Join(dir, "kubeconfig"), "-objects",
		strconv.Itoa(w.objects))
	_ = stdout.Close() // the child has its own
	if err != nil {
		return err
	}
	defer p.end()
	stop := context.AfterFunc(ctx, func() { _ = told.SetReadDeadline(time.Now()) })
	defer stop()
	if _, err := told.Read(make([]byte, 16)); err != nil {
		return p.Fault(fmt.Errorf("wait for the informer: %w", errors.Join(err, ctx.Err())))
	}
	wall := time.Since(p.Started())
	if err := p.Stop(stopLimit); err != nil {
		return err
	}
	b.line("run=first-sync-streamed/objects="+strconv.Itoa(w.objects)+"/way=informer",
		mebibytes(p.peaks().anon), "rss-anon-MiB", wall.Seconds(), "wall-s", p.cpu(), "cpu-s")
	return nil
}

// idleBookmark is the time between two bookmarks of a watch in the idle run: a sixth of the real server's.
const idleBookmark = 10 * time.Second

// idle measures many streams to which nothing comes but bookmarks.
func (b *bench) idle(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	d, err := b.newDaemon(name)
	if err != nil {
		return err
	}
	d.streams = b.options.streams
	w := worldOf(d.streams)
	w.namespace = 1
	s, err := b.serve(d.dir, append(w.flags(true), "-bookmark", idleBookmark.String())...)
	if err != nil {
		return err
	}
	defer s.end()
	p, err := d.start(nil)
	if err != nil {
		return err
	}
	defer p.end()
	if err := awaitSynced(ctx, p, d.streams); err != nil {
		return err
	}
	before, err := p.CPU()
	if err != nil {
		return err
	}
	if err := pause(ctx, b.options.idle); err != nil {
		return err
	}
	after, err := p.CPU()
	if err != nil {
		return err
	}
	st, err := s.stats(ctx)
	if err != nil {
		return err
	}
	if st.Watches != int64(d.streams) {
		return fmt.Errorf("%d watches are open where %d should be", st.Watches, d.streams)
	}
	now, err := p.usage()
	if err != nil {
		return err
	}
	metrics, err := p.Metrics(ctx)
	if err != nil {
		return err
	}
	if err := p.Stop(stopLimit); err != nil {
		return err
	}
	r := newReplay(w)
	if err := r.files(d.journal); err != nil {
		return err
	}
	if r.lines["ADDED"] != d.streams || r.lines["SYNCED"] != d.streams || len(r.lines) != 2 {
		return fmt.Errorf("the journal has lines %v of %d streams with an object each", r.lines, d.streams)
	}
	b.line("run=idle/streams="+strconv.Itoa(d.streams)+"/way=kubejournal",
		mebibytes(p.peaks().rss), "rss-MiB", mebibytes(now.rss), "rss-now-MiB", mebibytes(now.anon), "rss-anon-MiB",
		metrics["go_goroutines"]/float64(d.streams), "goroutines/stream",
		float64((after-before).Milliseconds())*float64(time.Minute)/float64(b.options.idle), "cpu-ms/min")
	return nil
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const blockedEvents = 40 // of each stream of the blocked run, 200 KB each

// blocked measures streams to which large events come as fast as they go, while nobody reads the output. Once nothing
// moves any more, the output is read, and must hold every event.
func (b *bench) blocked(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	d, err := b.newDaemon(name)
	if err != nil {
		return err
	}
	d.streams, d.journal = b.options.blocked, "-"
	w := worldOf(d.streams)
	w.namespace = 1
	s, err := b.serve(d.dir, append(w.flags(true), "-events", strconv.Itoa(blockedEvents))...)
	if err != nil {
		return err
	}
	defer s.end()
	output, stdout, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer output.Close()
	p, err := d.start(stdout)
	_ = stdout.Close() // the child has its own
	if err != nil {
		return err
	}
	defer p.end()
	var sent, peak int64
	for since := time.Now(); time.Since(since) < b.options.settle; {
		if err := pause(ctx, b.options.settle/10); err != nil {
			return err
		}
		st, err := s.stats(ctx)
		if err != nil {
			return err
		}
		// The bench's own questions, pings and the like are no progress.
		if st.Sent-sent > 256<<10 || st.Watches < int64(d.streams) || p.peaks().anon > peak {
			sent, since, peak = st.Sent, time.Now(), p.peaks().anon
		}
	}
	blocked := p.peaks()
	total := int64(d.streams) * blockedEvents * (200 << 10)
	if sent > total/10*9 {
		return fmt.Errorf("%d of %d bytes went through a blocked output", sent, total)
	}
	// The reader comes.
	r := newReplay(w)
	want := d.streams * (1 + 1 + blockedEvents) // ADDED, SYNCED, MODIFIED
	read := make(chan error, 1)
	go func() { read <- r.lead(output, want) }()
	select {
	case err = <-read:
	case <-ctx.Done():
		_ = output.SetReadDeadline(time.Now())
		err = errors.Join(<-read, ctx.Err())
	}
	if err != nil {
		return p.Fault(err)
	}
	if r.lines["ADDED"] != d.streams || r.lines["MODIFIED"] != d.streams*blockedEvents ||
		r.lines["SYNCED"] != d.streams {
		return fmt.Errorf("the output has lines %v", r.lines)
	}
	if err := p.Stop(stopLimit); err != nil {
		return err
	}
	b.line("run=blocked/streams="+strconv.Itoa(d.streams)+"/way=kubejournal",
		mebibytes(blocked.anon), "rss-anon-MiB", mebibytes(sent), "taken-MiB", mebibytes(p.peaks().anon),
		"drained-rss-anon-MiB")
	return nil
}

// lists measures lists in pages, compressed and not. The daemon asks for no compression where the server's address is
// one of the same machine or network; one that is known by a name may be far away.
func (b *bench) lists(ctx context.Context, name string, compressed bool) error {
	w := worldOf(b.options.gzip)
	d, err := b.newDaemon(name)
	if err != nil {
		return err
	}
	s, err := b.serve(d.dir, w.flags(false)...)
	if err != nil {
		return err
	}
	defer s.end()
	if compressed {
		if err := s.writeKubeconfig(d.dir, strings.Replace(s.address, "127.0.0.1", "localhost", 1)); err != nil {
			return err
		}
	}
	if err := b.syncOnce(ctx, d, s, "run=list-"+name+"/objects="+strconv.Itoa(w.objects)+
		"/way=kubejournal"); err != nil {
		return err
	}
	st, err := s.stats(ctx)
	if err != nil {
		return err
	}
	if plain := int64(w.objects * w.size); compressed != (st.Sent < plain/2) {
		return fmt.Errorf("%d objects of %d bytes came in %d bytes", w.objects, w.size, st.Sent)
	}
	if cpu, err := s.CPU(); err == nil {
		fmt.Fprintf(b.notes, "# the server's time: %v\n", cpu)
	}
	r := newReplay(w)
	return errors.Join(r.files(d.journal), r.check(w.difference()))
}
