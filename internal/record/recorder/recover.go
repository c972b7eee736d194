package recorder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/record/previous"
)

const (
	recoverBytes = 4 << 20         // that Recover holds in memory between two commits
	recoverTime  = 2 * time.Second // between two commits
)

// Recovered is what Recover found.
type Recovered struct {
	Seq       uint64 // of the journal's last line
	Lines     int    // that no commit covered
	Cut       int64  // bytes of a torn last line
	Gone      uint64 // committed lines at the end that the files no longer have
	Lost      bool   // there are lines, and no checkpoint to them
	Hole      bool   // lines are missing in the middle, see journal.Tail
	Misplaced bool   // see journal.Tail
	Resumed   uint64 // seq up to which an interrupted start had come, 0 for none
	Stdout    uint64 // of the last commit where its lines went to stdout, else 0

	checkpoint.Rotated
}

// ClusterError means that the journal is about another cluster than the checkpoint.
type ClusterError struct {
	Journal, Checkpoint string // uids of the clusters
	Seq                 uint64 // of the line that says so
}

func (e *ClusterError) Error() string {
	return fmt.Sprintf("line %d is about another cluster (%s) than the checkpoint (%s)", e.Seq, e.Journal, e.Checkpoint)
}

// Recover brings the checkpoint up to the journal before any watch starts: it reads
// back each line after the last commit, applies it to the checkpoint, and commits. On
// the way it commits how far it has come, without moving the mark: after a crash, or
// the end of ctx, the next call resumes there. If the checkpoint was lost, or is new
// beside an existing journal, each stream in the journal must write a GAP. If committed
// lines are missing, each stream must write a GAP and then all of its objects again. Of
// another cluster's journal nothing is taken (ClusterError).
func Recover(ctx context.Context, j *journal.File, store *checkpoint.Store) (Recovered, error) {
	return recoverWithin(ctx, j, store, recoverBytes)
}

// recoverWithin is Recover with another bound of memory.
func recoverWithin(ctx context.Context, j *journal.File, store *checkpoint.Store, most int) (Recovered, error) {
	r := recovery{ctx: ctx, journal: j, store: store, most: most, batch: checkpoint.NewBatch()}
	for _, step := range []func() error{r.load, r.resume, r.begin, r.read, r.finish} {
		if err := step(); err != nil {
			return Recovered{}, err
		}
	}
	return r.found, nil
}

// recovery is one call of Recover.
type recovery struct {
	ctx     context.Context
	journal *journal.File
	store   *checkpoint.Store
	most    int // bytes held in memory

	stored
	found  Recovered
	done   checkpoint.Recovery // up to the last line taken; Streams are those that it had lines of
	batch  *checkpoint.Batch   // of the lines since the last commit
	saved  time.Time           // when that was
	header line.Header         // scratch
	known  checkpoint.Changes  // scratch
}

// stored is what the checkpoint says at the start.
type stored struct {
	mark      checkpoint.Mark
	marked    bool                // or mark is no commit's
	from      checkpoint.FileMark // where reading back begins
	lost      bool
	cluster   string // "" is unknown
	states    map[string]checkpoint.Stream
	forgotten map[string]bool
	headers   map[string][]byte // of the streams that store previous versions
}

// load reads the checkpoint.
func (r *recovery) load() error {
	var errs [7]error
	r.mark, errs[0] = r.store.Mark()
	r.marked, errs[1] = r.store.Marked()
	r.lost, errs[2] = r.store.Lost()
	r.cluster, errs[3] = r.store.Cluster()
	r.states, errs[4] = r.store.Streams()
	r.forgotten, errs[5] = r.store.Forgotten()
	r.headers, errs[6] = r.store.KeptHeaders()
	if r.from = r.mark.LastFile(); r.from == (checkpoint.FileMark{}) {
		r.from.Seq = r.mark.Seq
	}
	return errors.Join(errs[:]...)
}

// resume takes over what an interrupted call has done since the mark, if the journal
// is still the same. Otherwise all is read again, with the same effect on known objects.
func (r *recovery) resume() error {
	r.done = checkpoint.Recovery{Streams: make(map[string]checkpoint.Stream)}
	if r.marked {
		r.done.From = &r.mark
	}
	before, ok, err := r.store.Recovery()
	if err != nil || !ok || (before.From != nil) != r.marked || r.marked && *before.From != r.mark {
		return err // from another mark: an earlier version, which ignores it, has committed one since
	}
	if ok, err = r.journal.Holds(markOf(before.Mark.LastFile()), before.Mark.Seq); err != nil || !ok {
		return err
	}
	for name := range r.forgotten {
		delete(before.Streams, name) // reset meanwhile
	}
	maps.Copy(r.done.Streams, before.Streams)
	before.Streams = r.done.Streams
	r.done, r.found.Resumed = before, before.Mark.Seq
	return nil
}

func markOf(m checkpoint.FileMark) journal.Mark {
	return journal.Mark{FirstSeq: m.FirstSeq, Offset: m.Offset}
}

var errIdentified = errors.New("the journal is this cluster's")

// begin refuses another cluster's journal, and notes that this one's checkpoint was lost.
func (r *recovery) begin() error {
	fresh, err := r.journal.Fresh()
	if err != nil || fresh {
		return err
	}
	if r.found.Lost = !r.marked; r.found.Resumed > 0 {
		return nil
	}
	holds, err := r.journal.Holds(markOf(r.from), r.from.Seq)
	if err != nil {
		return err
	}
	if !holds && r.cluster != "" {
		err := r.journal.Scan(func(line []byte, _ uint64) error {
			if !namesCluster(line) {
				return r.ctx.Err()
			}
			if err := r.parse(line); err != nil || r.header.ClusterUID == "" {
				return err
			}
			return errIdentified
		})
		if err != nil && !errors.Is(err, errIdentified) {
			return err
		}
	}
	if r.marked {
		return nil
	}
	r.lost = true
	return r.store.SetLost()
}

// namesCluster reports whether a line may be one about a stream: those about objects are many and long.
func namesCluster(line []byte) bool {
	head := line[:min(len(line), 128)]
	return bytes.Contains(head, []byte(`"type":"SYNCED"`)) || bytes.Contains(head, []byte(`"type":"GAP"`))
}

// parse reads a line's header, and refuses another cluster's. It ends with ctx.
func (r *recovery) parse(raw []byte) error {
	h := &r.header
	if err := line.ParseHeader(raw, h); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrBadLine, err)
	}
	if h.ClusterUID != "" && r.cluster != "" && h.ClusterUID != r.cluster {
		return &ClusterError{Journal: h.ClusterUID, Checkpoint: r.cluster, Seq: h.Seq}
	}
	return r.ctx.Err()
}

// read reads back what follows. If it is interrupted, it commits how far it came.
func (r *recovery) read() (err error) {
	r.saved = time.Now()
	var tail journal.Tail
	if r.found.Resumed > 0 {
		at := r.done
		tail, err = r.journal.ReadOn(journal.Position{Seq: at.Mark.Seq, Mark: markOf(at.Mark.LastFile()),
			Anchored: at.Anchored, Hole: at.Hole}, r.line)
	} else {
		tail, err = r.journal.ReadBack(markOf(r.from), r.from.Seq, r.marked && !r.lost, r.line)
	}
	if err != nil && r.ctx.Err() != nil && r.done.Mark.Seq > r.found.Resumed {
		err = errors.Join(err, r.save())
	}
	r.found.Cut, r.found.Hole, r.found.Misplaced = tail.Cut, tail.Hole && r.from.Seq > 0, tail.Misplaced && !tail.Hole
	return err
}

func (r *recovery) line(raw []byte, seq uint64) error {
	if err := r.parse(raw); err != nil {
		return err
	}
	h, at := &r.header, r.journal.Position()
	r.done.Mark = checkpoint.Mark{Seq: seq, FirstSeq: at.FirstSeq, Offset: at.Offset, Rotated: r.done.Mark.Rotated}
	r.done.Anchored, r.done.Hole = at.Anchored, at.Hole
	r.done.Lines++
	if h.Type == line.Removed || h.Type == line.Sealed {
		r.rotated(raw)
		return nil
	}
	state, ok := r.done.Streams[h.Stream]
	if !ok {
		state = r.states[h.Stream]
	}
	switch {
	case r.forgotten[h.Stream]: // written before the stream was reset
	case r.mark.File != (checkpoint.FileMark{}) && !isNews(h, &state): // repeated on stdout
	default:
		r.known.Reset()
		state.Apply(&checkpoint.Transition{
			Type: h.Type, Origin: h.Origin, Namespace: []byte(h.Namespace), Name: []byte(h.Name), UID: []byte(h.UID),
			ResourceVersion: []byte(h.ResourceVersion), FromResourceVersion: []byte(h.FromResourceVersion),
			Reason: h.Reason, Time: h.Time.UnixNano(), Count: h.Count,
		}, &r.known)
		if state.Open != nil {
			state.Term = h.Term
		}
		if h.Origin == line.FromWatch {
			written, _ := time.Parse(time.RFC3339, string(rawjson.Inside(rawjson.Pick(raw, "writtenAt")[0])))
			if written.After(h.Time) { // which proves nothing
				written = time.Time{}
			}
			state.MissBefore(h.Time, written, !ok)
		}
		if header, ok := r.headers[h.Stream]; ok {
			previous.Replay(header, h, &r.known)
		}
		r.done.Streams[h.Stream] = state
		r.batch.Add(h.Stream, &r.known)
	}
	if r.batch.Bytes() < r.most && time.Since(r.saved) < recoverTime {
		return nil
	}
	return r.save()
}

// rotated reads what a REMOVED or SEALED line says of the journal's files.
func (r *recovery) rotated(raw []byte) {
	var l line.Fields
	if l.Parse(raw) != nil {
		return // parse has seen to it
	}
	if gone, ok := l.Removed(); ok && gone.To < l.Seq {
		r.done.Mark.Begins = max(r.done.Mark.Begins, gone.To+1)
	}
	if is, ok := l.Sealed(); ok {
		r.done.Mark.Sealed, r.done.Mark.Chain = is.To, is.Chain
	}
}

// save commits the known objects and how far the reading has come. States come with
// finish, since they depend on where the reading began.
func (r *recovery) save() error {
	if err := r.journal.Sync(); err != nil { // who wrote these lines may have been killed before
		return err
	}
	r.batch.SetRecovery(r.done)
	err := r.store.Commit(r.batch)
	r.batch, r.saved = checkpoint.NewBatch(), time.Now()
	return err
}

// finish commits the states and the mark.
func (r *recovery) finish() error {
	if err := r.journal.Sync(); err != nil {
		return err
	}
	found, states, last := &r.found, r.done.Streams, r.journal.LastSeq()
	found.Seq, found.Lines = max(r.from.Seq, r.done.Mark.Seq), r.done.Lines
	found.continueFile(r.mark, last)
	if found.Hole {
		maps.Copy(r.states, states)
		states = r.states
		if err := r.redeliver(); err != nil {
			return err
		}
	}
	for stream, state := range states {
		switch {
		case found.Hole && state.ResourceVersion == "" && state.Open == nil: // it lists anyway
		case found.Hole:
			state.Lose(line.JournalTruncated)
		case r.lost && r.mark.Seq == 0: // made again from the journal, whose beginning may be missing
			state.Lose(line.CheckpointLost)
			state.Confirmed, state.Read = 0, 0 // the lines do not say when
		}
		r.batch.Add(stream, &checkpoint.Changes{State: &state})
	}
	if r.from.FirstSeq > 0 { // else the file was empty at the commit
		found.Gone = found.Seq - min(found.Seq, max(last, r.from.FirstSeq-1))
	}
	end := r.journal.Mark()
	found.Rotated = r.mark.Rotated
	found.Begins = max(found.Begins, r.done.Mark.Begins)
	if r.done.Mark.Sealed > 0 {
		found.Sealed, found.Chain = r.done.Mark.Sealed, r.done.Mark.Chain
	}
	if end.FirstSeq > 0 { // else lines were lost, and this file was sealed before it ended
		found.Sealed = min(found.Sealed, end.FirstSeq-1)
	}
	r.batch.SetMark(checkpoint.Mark{Seq: found.Seq, FirstSeq: end.FirstSeq, Offset: end.Offset, Rotated: found.Rotated})
	if err := r.store.Commit(r.batch); err != nil {
		return err
	}
	r.journal.Committed(found.Seq)
	return nil
}

// redeliver notes that each known object is to be written again, after what was read back.
func (r *recovery) redeliver() error {
	r.done.Hole = true
	if err := r.save(); err != nil {
		return err
	}
	for stream := range r.states {
		// Compared with its previous version, such an object would be unchanged.
		if err := r.store.DropKept(stream); err != nil {
			return err
		}
		err := r.store.Range(stream, func(k object.Known) error {
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

// continueFile has seq continue after the file's last line if the lines of the commit
// m went to stdout in between: the file lacks those, but none of its own, so that no
// stream writes a GAP. Its uncommitted lines were mostly repeated on stdout; those that
// are not later than the checkpoint's state are not replayed (see isNews).
func (r *Recovered) continueFile(m checkpoint.Mark, last uint64) {
	if m.FirstSeq > 0 {
		return
	}
	behind := 0 < last && last < r.Seq
	if behind || m.File != (checkpoint.FileMark{}) {
		r.Stdout = m.Seq
	}
	// a version that did not note how far the file was, or took stdout for an empty one
	if behind && m.File.FirstSeq == 0 {
		r.Seq = last
	}
}

// isNews reports whether the line h is later than the state of its stream. Lines
// of a list do not come in the order of versions: they are as late as their list.
func isNews(h *line.Header, state *checkpoint.Stream) bool {
	position := state.From()
	switch {
	case position == "":
		return true
	case h.Type == line.Synced && state.Open != nil:
		return !line.Later(position, h.ResourceVersion)
	case h.Type == line.Gap, h.Type == line.Synced, h.Origin == line.FromWatch:
		return line.Later(h.ResourceVersion, position)
	}
	return state.Open != nil
}
