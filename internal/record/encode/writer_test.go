package encode

import (
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/previous"
	"kubejournal/internal/record/recorder"
)

var writerHistories = flag.Int("writer.histories", 20, "histories that TestWriters makes up")

// writerStream is what a stream's encoder makes of the object's history, with its crashes.
type writerStream struct {
	t         testing.TB
	name      string
	config    previous.Config
	selection Selection
	producer  *recorder.Producer
	at        *checkpoint.Store
	e         *Encoder
	pending   checkpoint.Changes // not committed
	lines     [][]byte           // likewise
	batch     uint64
	committed uint64 // the same of the last batch that is
	position  int    // of the last commit
	object    object.Object
}

func newWriterStream(t testing.TB, name string, c previous.Config, sel Selection) *writerStream {
	at, err := checkpoint.OpenTemp()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { at.Close() })
	c.Stream, c.Shape, c.EveryVersion = "things", object.Shape{Drop: []string{"metadata.managedFields"}}, sel.Filter == ""
	s := &writerStream{t: t, name: name, config: c, selection: sel, at: at, producer: recorder.NewProducer("things", nil)}
	s.start()
	return s
}

// start makes an encoder as a new process does.
func (s *writerStream) start() {
	must := func(err error) {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "c"})
	sel, err := newSelector(s.selection, counter, zap.NewNop())
	must(err)
	previous, err := previous.New(s.config, s.at, func() uint64 { return s.committed }, zap.NewNop())
	must(err)
	src := object.Source{Stream: "things", Group: "example.com", Version: "v1", Resource: "things", Kind: "Thing"}
	render, err := object.NewRenderer(src, s.config.Shape)
	must(err)
	s.e = &Encoder{render: render, sel: sel, previous: previous, filtered: counter, gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "g"})}
	if previous != nil {
		_, _, err := previous.Load()
		must(err)
	}
	s.e.writers = newWriters(previous, false)
}

// take takes a version, and returns what its line says of the writer; false where it has none.
func (s *writerStream) take(v *writtenVersion, from line.Origin) (said writtenLine, ok bool) {
	if err := s.e.render.Scan(v.raw, &s.object); err != nil {
		s.t.Fatal(err)
	}
	b := s.producer.Batch()
	s.batch = b.Number()
	typ := v.typ
	if from == line.FromRelist {
		typ = line.Modified
		s.e.writers.reset()
	}
	l := object.Line{Type: typ, Origin: from, Received: time.Now()}
	if _, err := s.e.Add(b, l, &s.object, false); err != nil {
		s.t.Fatal(err)
	}
	s.pending.Add(&b.Changes)
	if b.Len() > 0 {
		raw := append(line.AppendSeq(nil, uint64(v.number)), b.Lines()...)
		if err := json.Unmarshal(raw, &said); err != nil {
			s.t.Fatal(err)
		}
		s.lines = append(s.lines, raw)
	}
	ok = b.Len() > 0
	if s.committed == 0 {
		s.commit(v.number)
	}
	return said, ok
}

type writtenLine struct {
	Manager, Subresource string
	WrittenAt            time.Time
}

func (s *writerStream) commit(position int) {
	b := checkpoint.NewBatch()
	b.Add("things", &s.pending)
	if err := s.at.Commit(b); err != nil {
		s.t.Fatal(err)
	}
	s.pending.Reset()
	s.committed, s.position, s.lines = s.batch, position, nil
}

// crash starts anew with what was committed and what some of the lines after say. It returns the position.
func (s *writerStream) crash(rnd *rand.Rand) int {
	header, _, err := s.at.KeptHeader("things")
	if err != nil {
		s.t.Fatal(err)
	}
	s.pending.Reset()
	position := s.position
	for _, raw := range s.lines[:rnd.IntN(len(s.lines)+1)] {
		var h line.Header
		if err := line.ParseHeader(raw, &h); err != nil {
			s.t.Fatal(err)
		}
		previous.Replay(header, &h, &s.pending)
		position = int(h.Seq)
	}
	s.commit(position)
	s.start()
	return position
}

// tally counts answers.
type tally struct{ right, absent, wrong int }

func (c *tally) count(known, right bool) bool {
	switch {
	case !known:
		c.absent++
	case right:
		c.right++
	default:
		c.wrong++
	}
	return !known || right
}

// Histories of writers of all kinds, made with the API server's own code: who wrote and when is right or left out, whatever
// the stream stores and holds back, over crashes, lost lines and relists.
func TestWriters(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	all := map[string]*tally{}
	for seed := range uint64(*writerHistories) {
		synctest.Test(t, func(t *testing.T) { writerHistory(t, seed, all) })
		if t.Failed() {
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := all[name]
		t.Logf("%-34s right %6d, absent %6d, wrong %d", name, c.right, c.absent, c.wrong)
	}
}

func writerHistory(t *testing.T, seed uint64, all map[string]*tally) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	server := newAPIServer(rnd)
	streams := []*writerStream{
		newWriterStream(t, "changes", previous.Config{Changes: true}, Selection{}),
		newWriterStream(t, "plain", previous.Config{}, Selection{}),
		newWriterStream(t, "changes, filter", previous.Config{Changes: true}, Selection{Filter: `object.metadata.resourceVersion.matches("[3-9]$")`}),
		newWriterStream(t, "changes, ignoreFields", previous.Config{Changes: true, IgnoreFields: []string{"status.count"}}, Selection{}),
	}
	var history []*writtenVersion
	next := make([]int, len(streams))
	slow := time.Duration(1+rnd.IntN(3)) * 200 * time.Millisecond
	for range 300 {
		if rnd.IntN(3) > 0 {
			client.Sleep(t.Context(), time.Duration(rnd.Int64N(int64(4*slow))))
		}
		if v := server.step(); v != nil {
			history = append(history, v)
		}
		for i, s := range streams {
			if rnd.IntN(8) == 0 {
				continue // it lags behind
			}
			from := line.FromWatch
			if n := len(history); n-next[i] > 1 && history[n-1].typ == line.Modified && rnd.IntN(10) == 0 {
				if next[i] > 0 && history[next[i]-1].object == history[n-1].object {
					next[i], from = n-1, line.FromRelist // the versions between are gone
				}
			}
			for ; next[i] < len(history); next[i]++ {
				v := history[next[i]]
				said, ok := s.take(v, from)
				if ok && !checkWriter(t, all, s.name, seed, v, from, said) {
					list, _ := changes.Append(nil, history[max(next[i]-1, 0)].raw, v.raw)
					t.Fatalf("what changed: %s", list)
				}
				from = line.FromWatch
			}
			switch rnd.IntN(40) {
			case 0, 1, 2, 3, 4, 5:
				s.commit(next[i])
			case 6:
				next[i] = s.crash(rnd)
			}
		}
	}
}

func checkWriter(t *testing.T, all map[string]*tally, stream string, seed uint64, v *writtenVersion, from line.Origin, said writtenLine) bool {
	count := func(what string) *tally {
		for _, name := range []string{stream + ": " + what, stream + ": " + what + " of " + v.how} {
			if all[name] == nil {
				all[name] = &tally{}
			}
		}
		return all[stream+": "+what]
	}
	who, when := count("manager"), count("writtenAt")
	right := said.Manager == v.manager && said.Subresource == v.subresource && v.typ != line.Deleted
	rightTime := said.WrittenAt.Unix() == v.at && v.typ != line.Deleted
	known, timed := said.Manager != "" || said.Subresource != "", !said.WrittenAt.IsZero()
	all[stream+": manager of "+v.how].count(known, right)
	all[stream+": writtenAt of "+v.how].count(timed, rightTime)
	if !who.count(known, right) || !when.count(timed, rightTime) {
		t.Errorf("seed %d, stream %s, version %d, %s: %q/%q at %v; it was %s by %q/%q at %v\n%s", seed, stream, v.number, from,
			said.Manager, said.Subresource, said.WrittenAt, v.how, v.manager, v.subresource, time.Unix(v.at, 0).UTC(), v.raw)
		return false
	}
	return true
}

// A writer is named by the version before, also where that had the time of the one before it: it is remembered until the object
// is deleted.
func TestWriterRemembered(t *testing.T) {
	r, err := object.NewRenderer(object.Source{Stream: "things", Version: "v1", Resource: "things", Kind: "Thing"}, object.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	w := writers{marks: map[uint64]object.Mark{}}
	for i, c := range []struct {
		typ     line.Type
		time    string // of the one entry
		version string
		named   bool
	}{
		{line.Added, "10:00:00", "1", false},
		{line.Modified, "10:00:01", "2", true},
		{line.Modified, "10:00:01", "3", false}, // in the same second
		{line.Modified, "10:00:02", "4", true},
		{line.Deleted, "10:00:02", "5", false},
		{line.Added, "10:00:03", "6", false},
		{line.Modified, "10:00:04", "7", true},
	} {
		var o object.Object
		raw := `{"metadata":{"name":"a","uid":"u","resourceVersion":"` + c.version + `","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-11-20T` +
			c.time + `Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}]}}`
		if err := r.Scan([]byte(raw), &o); err != nil {
			t.Fatal(err)
		}
		write, _ := o.Written(w.next(c.typ, &o))
		if named := write.Manager != nil; named != c.named {
			t.Errorf("version %d: named: %t, want %t", i+1, named, c.named)
		}
	}
}
