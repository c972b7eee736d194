package recorder

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/record/metrics"
)

var errDisk = errors.New("no space left on device")

// pass lets time pass in a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

// fakeOutput is an output in memory. Hooks run without the lock; each is set
// before the recorder runs.
type fakeOutput struct {
	onWrite func(call, size int) (take int, err error) // nil error takes all
	onSync  func(call int) error
	// onVerify is why what was written does not stand there.
	onVerify    func() error
	onCommitted func(seq uint64)
	onSeal      func(after uint64) *line.Seal

	mu            sync.Mutex
	written       []byte
	synced        int // bytes that a sync has covered
	writes, syncs int
	committed     uint64 // as the recorder reports
	extent        journal.Extent
}

func (o *fakeOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	call := o.writes
	o.writes++
	o.mu.Unlock()
	n, err := len(p), error(nil)
	if o.onWrite != nil {
		if take, fault := o.onWrite(call, len(p)); fault != nil {
			n, err = take, fault
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written = append(o.written, p[:n]...)
	return n, err
}

func (o *fakeOutput) Sync() error {
	o.mu.Lock()
	call, size := o.syncs, len(o.written)
	o.syncs++
	o.mu.Unlock()
	if o.onSync != nil {
		if err := o.onSync(call); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.synced = max(o.synced, size)
	return nil
}

func (o *fakeOutput) Verify() error {
	if o.onVerify != nil {
		return o.onVerify()
	}
	return nil
}

func (o *fakeOutput) Mark() journal.Mark {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := journal.Mark{Offset: int64(len(o.written))}
	if m.Offset > 0 {
		m.FirstSeq = 1
	}
	return m
}

// Extent implements Output.
func (o *fakeOutput) Extent() journal.Extent {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.extent
}

// Seal implements Output.
func (o *fakeOutput) Seal(after uint64) *line.Seal {
	if o.onSeal != nil {
		return o.onSeal(after)
	}
	return nil
}

// Committed implements Output.
func (o *fakeOutput) Committed(seq uint64) {
	if o.onCommitted != nil {
		o.onCommitted(seq)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.committed = seq
}

func (o *fakeOutput) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.written)
}

// outcome is how a commit ends.
type outcome int

const (
	succeeds outcome = iota
	fails
	failsPersisted // the caller is told that it failed
	takenOver      // by another process
)

// fakeStore is a checkpoint whose commits end as told. After each that was
// persisted it checks that the position is not ahead of the journal.
type fakeStore struct {
	*checkpoint.Store
	t      *testing.T
	out    *fakeOutput
	noSync bool
	// unchecked is for tests whose lines are too many to be read at each commit,
	// or that have none.
	unchecked bool
	onCommit  func(call int) outcome

	mu      sync.Mutex
	batches []*checkpoint.Batch // of each call
	commits int                 // that were persisted
}

func (s *fakeStore) Commit(b *checkpoint.Batch) error {
	s.mu.Lock()
	call := len(s.batches)
	s.batches = append(s.batches, b)
	s.mu.Unlock()
	end := succeeds
	if s.onCommit != nil {
		end = s.onCommit(call)
	}
	switch end {
	case fails:
		return errDisk
	case takenOver:
		return fmt.Errorf("commit: %w", disk.ErrTakenOver)
	}
	if err := s.Store.Commit(b); err != nil {
		return err
	}
	s.mu.Lock()
	s.commits++
	s.mu.Unlock()
	if !s.unchecked {
		s.check()
	}
	if end == failsPersisted {
		return errDisk
	}
	return nil
}

// check: the mark is a line's end, that line's seq is the mark's, all of it is
// written and synced, and what is known of each stream is what the lines up to
// there say: no more (a hole after a crash) and no less (a repeat).
func (s *fakeStore) check() {
	s.t.Helper()
	mark, err := s.Mark()
	if err != nil {
		s.t.Error(err)
		return
	}
	s.out.mu.Lock()
	written, synced := bytes.Clone(s.out.written), s.out.synced
	s.out.mu.Unlock()
	switch {
	case mark.Offset > int64(len(written)):
		s.t.Errorf("committed up to byte %d, written are %d", mark.Offset, len(written))
		return
	case mark.Offset > int64(synced) && !s.noSync:
		s.t.Errorf("committed up to byte %d, synced are %d", mark.Offset, synced)
	}
	position := map[string]string{}
	known := map[string]map[string]bool{}
	seq := uint64(0)
	for _, l := range parse(s.t, written[:mark.Offset]) {
		seq = l.Seq
		position[l.Stream] = l.ResourceVersion
		if known[l.Stream] == nil {
			known[l.Stream] = map[string]bool{}
		}
		known[l.Stream][l.Name] = true
	}
	if seq != mark.Seq {
		s.t.Errorf("committed seq %d, the line before byte %d is %d", mark.Seq, mark.Offset, seq)
	}
	c := contentOf(s.t, s.Store)
	for name, st := range c.Streams {
		if st.ResourceVersion != position[name] {
			s.t.Errorf("stream %s is committed at %s, its last line before the mark is %s", name, st.ResourceVersion, position[name])
		}
		if len(c.Known[name]) != len(known[name]) {
			s.t.Errorf("stream %s knows %d objects, %d stand before the mark", name, len(c.Known[name]), len(known[name]))
		}
	}
	if len(c.Streams) != len(position) {
		s.t.Errorf("%d streams committed, %d before the mark", len(c.Streams), len(position))
	}
}

func (s *fakeStore) calls() []*checkpoint.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*checkpoint.Batch(nil), s.batches...)
}

type written struct {
	Seq                           uint64
	Stream, Name, ResourceVersion string
}

// parse reads lines, which must be whole and in order of seq, without a hole.
func parse(t *testing.T, b []byte) []written {
	t.Helper()
	var all []written
	if len(b) > 0 && b[len(b)-1] != '\n' {
		t.Errorf("ends within a line: ...%q", b[max(0, len(b)-40):])
	}
	for text := range bytes.Lines(b) {
		var l written
		if err := json.Unmarshal(text, &l); err != nil {
			t.Errorf("line %.80q: %v", text, err)
		}
		if n := len(all); n > 0 && l.Seq != all[n-1].Seq+1 {
			t.Errorf("seq %d after %d", l.Seq, all[n-1].Seq)
		}
		all = append(all, l)
	}
	if len(all) > 0 && all[0].Seq != 1 {
		t.Errorf("first seq %d", all[0].Seq)
	}
	return all
}

// rig is a recorder on fakes.
type rig struct {
	t         *testing.T
	out       *fakeOutput
	store     *fakeStore
	rec       *Recorder
	m         *metrics.Metrics
	done      chan error
	producers map[string]*Producer
	sent      map[string]int // lines by stream
}

func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	g := &rig{t: t, out: &fakeOutput{}, done: make(chan error, 1), producers: make(map[string]*Producer), sent: make(map[string]int)}
	g.store = &fakeStore{Store: tempStore(t), t: t, out: g.out, noSync: cfg.NoSync}
	g.out.onCommitted = func(seq uint64) {
		if mark, err := g.store.Mark(); err != nil || mark.Seq < seq {
			t.Errorf("the output is to forget the lines up to %d, committed is %+v, %v", seq, mark, err)
		}
	}
	g.m = metrics.New("test", "")
	cfg.Metrics, cfg.Log = g.m, cmp.Or(cfg.Log, zap.NewNop())
	g.rec = New(g.out, g.store, cfg)
	return g
}

func (g *rig) run(ctx context.Context) { go func() { g.done <- g.rec.Run(ctx) }() }

// counted is the value of a counter, over all its labels.
func (g *rig) counted(name string) (sum float64) {
	g.t.Helper()
	families, err := g.m.Registry.Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "kubejournal_"+name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
			return sum
		}
	}
	g.t.Fatalf("no metric %s", name)
	return 0
}

func newProducer(stream string) *Producer {
	return NewProducer(stream, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "events"}, []string{"type", "origin"}))
}

// batch is n lines of a stream, each of about size bytes, with what they make known.
func (g *rig) batch(stream string, n, size int) *Batch {
	producer := g.producers[stream]
	if producer == nil {
		producer = newProducer(stream)
		g.producers[stream] = producer
	}
	b := producer.Batch()
	if !b.Empty() || b.Len() != 0 || b.Bytes() != 0 {
		g.t.Errorf("a fresh batch holds %d lines, %d bytes", b.Len(), b.Bytes())
	}
	for range n {
		g.sent[stream]++
		rv := g.sent[stream]
		name := fmt.Sprintf("o%d", rv)
		head := fmt.Sprintf(`,"stream":%q,"name":%q,"resourceVersion":"%d","x":"`, stream, name, rv)
		l := append(b.Lines(), head...)
		l = append(l, bytes.Repeat([]byte("x"), max(0, size-len(head)))...)
		b.AddLine(append(l, "\"}\n"...), line.Added, line.FromWatch, time.Now(), fmt.Append(nil, rv))
		b.Changes.Put(nil, []byte(name), []byte("u"), fmt.Append(nil, rv))
		b.Changes.State = &checkpoint.Stream{ResourceVersion: fmt.Sprint(rv)}
	}
	return b
}

func (g *rig) submit(b *Batch) {
	g.t.Helper()
	if err := g.rec.Submit(g.t.Context(), b); err != nil {
		g.t.Fatal(err)
	}
}

// finish closes the recorder and checks that every line sent stands in the
// output once, in its stream's order, and that all of it is committed.
func (g *rig) finish() {
	g.t.Helper()
	g.rec.Close()
	if err := <-g.done; err != nil {
		g.t.Fatalf("Run = %v", err)
	}
	g.checkAll()
}

func (g *rig) checkAll() {
	g.t.Helper()
	all := parse(g.t, g.out.bytes())
	got := map[string]int{}
	for _, l := range all {
		got[l.Stream]++
		if l.ResourceVersion != fmt.Sprint(got[l.Stream]) {
			g.t.Errorf("stream %s: line %d is %s", l.Stream, got[l.Stream], l.ResourceVersion)
		}
	}
	for stream, n := range g.sent {
		if got[stream] != n {
			g.t.Errorf("stream %s: %d lines of %d", stream, got[stream], n)
		}
	}
	mark, err := g.store.Mark()
	if err != nil || mark.Offset != int64(len(g.out.bytes())) || mark.Seq != uint64(len(all)) {
		g.t.Errorf("mark %+v, %v after %d lines in %d bytes", mark, err, len(all), len(g.out.bytes()))
	}
	if g.out.committed != mark.Seq {
		g.t.Errorf("the output may forget the lines up to %d, committed are %d", g.out.committed, mark.Seq)
	}
	g.store.check()
}
