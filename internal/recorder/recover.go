package recorder

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"kubejournal/internal/changes"
	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/internal/journal"
)

// What bounds the work of Recover that a kill undoes.
const (
	recoverBytes = 4 << 20 // held in memory between two commits
	recoverTime  = 2 * time.Second
)

// Recovered is what Recover found.
type Recovered struct {
	Seq       uint64 // of the journal's last line
	Lines     int    // that no commit knew of
	Cut       int64  // bytes of a torn last line
	Gone      uint64 // committed lines at the end that the files no longer have
	Lost      bool   // there are lines, and no checkpoint to them
	Hole      bool   // lines are missing in the middle, see journal.Tail
	Misplaced bool   // see journal.Tail
	Resumed   uint64 // seq up to which an interrupted start had come, 0 for none
	Stdout    uint64 // of the last commit where its lines went to stdout, else 0
}

// ClusterError says that lines of the journal are about another cluster than the
// checkpoint's.
type ClusterError struct {
	Journal, Checkpoint string // uids of the clusters
	Seq                 uint64 // of the line that says so
}

func (e *ClusterError) Error() string {
	return fmt.Sprintf("line %d is about another cluster (%s) than the checkpoint (%s)", e.Seq, e.Journal, e.Checkpoint)
}

// Recover brings the checkpoint up to the journal before any watch starts: each
// line after the last commit is read back and does to the checkpoint what it
// would have done had the commit come in time. Then it commits. On the way it
// commits how far it has come, without moving the mark: after a crash, or when ctx
// ends, which is an error, the next call resumes there. If the checkpoint was lost,
// or is new beside an existing journal, every stream found in the journal must write
// a GAP. If committed lines are missing from the journal, every stream must write a
// GAP and then all of its objects again. A journal of another cluster than the
// checkpoint's is a ClusterError, and nothing of it is taken.
func Recover(ctx context.Context, j *journal.File, store *checkpoint.Store) (Recovered, error) {
	return recoverWithin(ctx, j, store, recoverBytes, recoverTime)
}

// recoverWithin is Recover with other bounds.
func recoverWithin(ctx context.Context, j *journal.File, store *checkpoint.Store, most int, interval time.Duration) (Recovered, error) {
	r := recovery{ctx: ctx, journal: j, store: store, most: most, interval: interval, batch: checkpoint.NewBatch()}
	for _, step := range []func() error{r.load, r.resume, r.begin} {
		if err := step(); err != nil {
			return Recovered{}, err
		}
	}
	tail, err := r.read()
	if err != nil {
		return Recovered{}, err
	}
	return r.finish(tail)
}

// recovery is one call of Recover.
type recovery struct {
	ctx      context.Context
	journal  *journal.File
	store    *checkpoint.Store
	most     int
	interval time.Duration

	// As the checkpoint had it:
	mark      checkpoint.Mark
	from      checkpoint.FileMark // how far the file stood: see startOf
	marked    bool                // or mark is no commit's
	lost      bool
	cluster   string // "" is unknown
	states    map[string]checkpoint.Stream
	forgotten map[string]bool
	headers   map[string][]byte // of the streams that store previous versions

	found   bool                // there is a line in the journal
	resumed uint64              // seq that the interrupted call came to
	done    checkpoint.Recovery // up to the last line taken; Streams are those that it had lines of
	batch   *checkpoint.Batch   // of the lines since the last commit
	saved   time.Time           // when that was
	header  event.Header        // scratch
	known   checkpoint.Changes  // scratch
}

// load reads the checkpoint.
func (r *recovery) load() (err error) {
	if r.mark, err = r.store.Mark(); err != nil {
		return err
	}
	r.from = startOf(r.mark)
	if r.marked, err = r.store.Marked(); err != nil {
		return err
	}
	if r.lost, err = r.store.Lost(); err != nil {
		return err
	}
	if r.cluster, err = r.store.Cluster(); err != nil {
		return err
	}
	if r.states, err = r.store.Streams(); err != nil {
		return err
	}
	if r.forgotten, err = r.store.Forgotten(); err != nil {
		return err
	}
	r.headers, err = r.store.KeptHeaders()
	return err
}

// resume takes over what an interrupted call has done since the mark, where the
// journal is still the one that it read. Otherwise all of it is read again, which
// does the same to the known objects.
func (r *recovery) resume() error {
	before, ok, err := r.store.Recovery()
	if err != nil {
		return err
	}
	r.done = checkpoint.Recovery{Streams: make(map[string]checkpoint.Stream)}
	if r.marked {
		r.done.From = &r.mark
	}
	if !ok || (before.From != nil) != r.marked || r.marked && *before.From != r.mark {
		return nil // an earlier version that knows nothing of it has committed a mark since
	}
	if ok, err = r.journal.Holds(markOf(before.Mark.LastFile()), before.Mark.Seq); err != nil || !ok {
		return err
	}
	for name := range r.forgotten {
		delete(before.Streams, name) // reset meanwhile
	}
	if before.Streams == nil {
		before.Streams = r.done.Streams
	}
	r.done, r.resumed = before, before.Mark.Seq
	return nil
}

func markOf(m checkpoint.FileMark) journal.Mark {
	return journal.Mark{FirstSeq: m.FirstSeq, Offset: m.Offset}
}

// begin refuses another cluster's journal, and notes that the checkpoint to this
// one was lost.
func (r *recovery) begin() error {
	fresh, err := r.journal.Fresh()
	r.found = !fresh
	if err != nil || fresh || r.resumed > 0 {
		return err
	}
	holds, err := r.journal.Holds(markOf(r.from), r.from.Seq)
	if err != nil {
		return err
	}
	if !holds && r.cluster != "" {
		if err := r.identify(); err != nil {
			return err
		}
	}
	if r.marked {
		return nil
	}
	r.lost = true
	return r.store.SetLost()
}

// errIdentified ends identify.
var errIdentified = errors.New("the journal is this cluster's")

// identify looks for the first line that names a cluster, before any is taken.
func (r *recovery) identify() error {
	err := r.journal.Scan(func(line []byte, _ uint64) error {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if !namesCluster(line) {
			return nil
		}
		if err := event.ParseHeader(line, &r.header); err != nil {
			return fmt.Errorf("%w: %w", journal.ErrBadLine, err)
		}
		if r.header.ClusterUID == "" {
			return nil
		}
		return cmp.Or(r.sameCluster(), errIdentified)
	})
	if errors.Is(err, errIdentified) {
		return nil
	}
	return err
}

// namesCluster reports whether a line may be one about a stream: those about
// objects are many and long.
func namesCluster(line []byte) bool {
	head := line[:min(len(line), 128)]
	return bytes.Contains(head, []byte(`"type":"SYNCED"`)) || bytes.Contains(head, []byte(`"type":"GAP"`))
}

// sameCluster compares the line just read with the checkpoint.
func (r *recovery) sameCluster() error {
	if h := &r.header; h.ClusterUID != "" && r.cluster != "" && h.ClusterUID != r.cluster {
		return &ClusterError{Journal: h.ClusterUID, Checkpoint: r.cluster, Seq: h.Seq}
	}
	return nil
}

// read reads back what follows. When it is to stop, it commits how far it came.
func (r *recovery) read() (tail journal.Tail, err error) {
	r.saved = time.Now()
	if r.resumed > 0 {
		at := r.done
		tail, err = r.journal.ReadOn(journal.Position{Seq: at.Mark.Seq, Mark: markOf(at.Mark.LastFile()), Anchored: at.Anchored, Hole: at.Hole}, r.line)
	} else {
		tail, err = r.journal.ReadBack(markOf(r.from), r.from.Seq, r.marked && !r.lost, r.line)
	}
	if err != nil && r.ctx.Err() != nil && r.done.Mark.Seq > r.resumed {
		err = errors.Join(err, r.save())
	}
	return tail, err
}

// line takes one line.
func (r *recovery) line(line []byte, seq uint64) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	h := &r.header
	if err := event.ParseHeader(line, h); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrBadLine, err)
	}
	if err := r.sameCluster(); err != nil {
		return err
	}
	at := r.journal.Position()
	r.done.Mark = checkpoint.Mark{Seq: seq, FirstSeq: at.FirstSeq, Offset: at.Offset}
	r.done.Anchored, r.done.Hole = at.Anchored, at.Hole
	r.done.Lines++
	state, ok := r.done.Streams[h.Stream]
	if !ok {
		state = r.states[h.Stream]
	}
	switch {
	case r.forgotten[h.Stream]: // written before the stream was reset
	case r.mark.File != (checkpoint.FileMark{}) && !isNews(h, &state): // told on stdout too
	default:
		r.known.Reset()
		state.Apply(&checkpoint.Transition{
			Type: h.Type, Origin: h.Origin, Namespace: []byte(h.Namespace), Name: []byte(h.Name), UID: []byte(h.UID),
			ResourceVersion: []byte(h.ResourceVersion), FromResourceVersion: []byte(h.FromResourceVersion),
		}, &r.known)
		if header, ok := r.headers[h.Stream]; ok {
			changes.Replay(header, h, &r.known)
		}
		r.done.Streams[h.Stream] = state
		r.batch.Add(h.Stream, &r.known)
	}
	if r.batch.Bytes() < r.most && time.Since(r.saved) < r.interval {
		return nil
	}
	return r.save()
}

// save commits the known objects and how far the reading has come. The states stay
// with that until finish, since they depend on where the reading began.
func (r *recovery) save() error {
	// The process that wrote these lines may have been killed before its sync.
	if err := r.journal.Sync(); err != nil {
		return err
	}
	r.batch.SetRecovery(r.done)
	err := r.store.Commit(r.batch)
	r.batch, r.saved = checkpoint.NewBatch(), time.Now()
	return err
}

// finish commits the states and the mark.
func (r *recovery) finish(tail journal.Tail) (Recovered, error) {
	rec := Recovered{
		Seq: max(r.from.Seq, r.done.Mark.Seq), Lines: r.done.Lines, Cut: tail.Cut, Resumed: r.resumed,
		Lost: r.found && !r.marked, Hole: tail.Hole && r.from.Seq > 0, Misplaced: tail.Misplaced && !tail.Hole,
	}
	rec.goOn(r.mark, r.journal.LastSeq())
	if err := r.journal.Sync(); err != nil {
		return Recovered{}, err
	}
	states := r.done.Streams
	if rec.Hole {
		maps.Copy(r.states, states)
		states = r.states
		if err := r.tellAgain(); err != nil {
			return Recovered{}, err
		}
	}
	for stream, state := range states {
		switch {
		case rec.Hole && state.ResourceVersion == "" && state.Open == nil:
			// It lists anyway.
		case rec.Hole:
			state.Lose(event.JournalTruncated)
		case r.lost && r.mark.Seq == 0:
			// Made again from what is left of the journal: a beginning may be
			// missing.
			state.Lose(event.CheckpointLost)
		}
		r.batch.Add(stream, &checkpoint.Changes{State: &state})
	}
	if r.from.FirstSeq > 0 { // else the file was empty at the commit
		rec.Gone = rec.Seq - min(rec.Seq, max(r.journal.LastSeq(), r.from.FirstSeq-1))
	}
	end := r.journal.Mark()
	r.batch.SetMark(checkpoint.Mark{Seq: rec.Seq, FirstSeq: end.FirstSeq, Offset: end.Offset})
	if err := r.store.Commit(r.batch); err != nil {
		return Recovered{}, err
	}
	r.journal.Committed(rec.Seq)
	return rec, nil
}

// tellAgain notes of each known object that it is to be told of again: whether the
// reader has a line of its last version is not known.
func (r *recovery) tellAgain() error {
	// What was read back comes first.
	r.done.Hole = true
	if err := r.save(); err != nil {
		return err
	}
	for stream := range r.states {
		// Compared with its previous version, an object that is to be told of again
		// would be no news.
		if err := r.store.DropKept(stream); err != nil {
			return err
		}
		err := r.store.Range(stream, func(k checkpoint.Known) error {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			r.known.Reset()
			r.known.Redeliver(k)
			r.batch.Add(stream, &r.known)
			if r.batch.Bytes() < r.most {
				return nil
			}
			return r.save()
		})
		if err != nil {
			return err
		}
	}
	return nil
}
