package recorder

import (
	"context"
	"fmt"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/internal/journal"
)

// recoverBytes bounds what Recover holds in memory between two commits.
const recoverBytes = 4 << 20

// Reasons of GAPs that follow from what a start finds on disk.
const (
	CheckpointLost   = "CheckpointLost"   // nobody knows what the reader was told
	JournalTruncated = "JournalTruncated" // lines that the checkpoint counts on are gone
)

// Recovered is what Recover found.
type Recovered struct {
	Seq   uint64 // of the journal's last line
	Lines int    // that no commit knew of
	Cut   int64  // bytes of a torn last line
	Gone  uint64 // committed lines at the end that the files no longer have
	Lost  bool   // there are lines, and no checkpoint to them
	Hole  bool   // lines are missing in the middle, see journal.Tail
}

// Recover brings the checkpoint up to the journal before any watch starts: each
// line after the last commit is read back and does to the checkpoint what it
// would have done had the commit come in time. Then it commits. A crash on the
// way does no harm: the next start finds the same lines, or fewer. In the place of
// a checkpoint that was lost, or of one that is new where there are lines, each stream in the journal owes a GAP; and where
// lines are missing that must be there, each stream owes one behind which it tells
// of every object again. It ends early, with its error, when ctx does.
func Recover(ctx context.Context, j *journal.File, store *checkpoint.Store) (Recovered, error) {
	mark, err := store.Mark()
	if err != nil {
		return Recovered{}, err
	}
	states, err := store.Streams()
	if err != nil {
		return Recovered{}, err
	}
	marked, err := store.Marked()
	if err != nil {
		return Recovered{}, err
	}
	// A journal without its checkpoint: that was lost, and each stream owes a GAP.
	fresh, err := j.Fresh()
	if err != nil {
		return Recovered{}, err
	}
	if !marked && !fresh {
		if err := store.SetLost(); err != nil {
			return Recovered{}, err
		}
	}
	lost, err := store.Lost()
	if err != nil {
		return Recovered{}, err
	}
	forgotten, err := store.Forgotten()
	if err != nil {
		return Recovered{}, err
	}
	headers, err := store.KeptHeaders()
	if err != nil {
		return Recovered{}, err
	}
	rec := Recovered{Seq: mark.Seq, Lost: !marked && !fresh}
	batch := checkpoint.NewBatch()
	touched := make(map[string]bool)
	var (
		header  event.Header
		changes checkpoint.Changes
	)
	tail, err := j.ReadBack(journal.Mark{FirstSeq: mark.FirstSeq, Offset: mark.Offset}, mark.Seq, marked && !lost,
		func(line []byte, seq uint64) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			header = event.Header{}
			if err := event.ParseHeader(line, &header); err != nil {
				return fmt.Errorf("%w: %w", journal.ErrBadLine, err)
			}
			rec.Seq = seq
			rec.Lines++
			if forgotten[header.Stream] {
				return nil // written before the stream was reset
			}
			state := states[header.Stream]
			changes.Reset()
			apply(&header, &state, &changes)
			if kept, ok := headers[header.Stream]; ok {
				keep(&header, kept, &changes)
			}
			states[header.Stream] = state
			touched[header.Stream] = true
			batch.Add(header.Stream, &changes)
			if batch.Bytes() < recoverBytes {
				return nil
			}
			// Known objects only: to put or delete one twice changes nothing, and
			// after a crash the states are made again from the same lines.
			if err := j.Sync(); err != nil {
				return err
			}
			err := store.Commit(batch)
			batch = checkpoint.NewBatch()
			return err
		})
	if err != nil {
		return Recovered{}, err
	}
	rec.Cut, rec.Hole = tail.Cut, tail.Hole && mark.Seq > 0
	// The process that wrote these lines may have been killed before its sync.
	if err := j.Sync(); err != nil {
		return Recovered{}, err
	}
	for stream := range touched {
		state := states[stream]
		if lost && mark.Seq == 0 {
			// Made again from what is left of the journal: a beginning may be
			// missing.
			state.Owed = CheckpointLost
		}
		batch.Add(stream, &checkpoint.Changes{State: &state})
	}
	if rec.Hole {
		if err := tellAgain(store, states, &batch); err != nil {
			return Recovered{}, err
		}
	}
	if mark.FirstSeq > 0 { // else the file was empty at the commit
		rec.Gone = rec.Seq - min(rec.Seq, max(j.LastSeq(), mark.FirstSeq-1))
	}
	end := j.Mark()
	batch.SetMark(checkpoint.Mark{Seq: rec.Seq, FirstSeq: end.FirstSeq, Offset: end.Offset})
	if err := store.Commit(batch); err != nil {
		return Recovered{}, err
	}
	j.Committed(rec.Seq)
	return rec, nil
}

// tellAgain has every stream relist, and tell of each object that it finds:
// whether the reader has a line of its last version is not known.
func tellAgain(store *checkpoint.Store, states map[string]checkpoint.Stream, batch **checkpoint.Batch) error {
	// What was read back comes first.
	if err := store.Commit(*batch); err != nil {
		return err
	}
	*batch = checkpoint.NewBatch()
	var changes checkpoint.Changes
	for stream, state := range states {
		// Compared with what is kept, an object that is to be told of again would
		// be no news.
		if err := store.DropKept(stream); err != nil {
			return err
		}
		err := store.Range(stream, func(k checkpoint.Known) error {
			changes.Reset()
			changes.Doubt(k)
			(*batch).Add(stream, &changes)
			if (*batch).Bytes() < recoverBytes {
				return nil
			}
			err := store.Commit(*batch)
			*batch = checkpoint.NewBatch()
			return err
		})
		if err != nil {
			return err
		}
		if state.ResourceVersion == "" && state.Open == nil {
			continue // it lists anyway
		}
		state.Owed = JournalTruncated
		(*batch).Add(stream, &checkpoint.Changes{State: &state})
	}
	return nil
}

// apply does to a stream's state and known objects what the line h stands for.
// It is the counterpart of what package watcher submits with each line.
func apply(h *event.Header, state *checkpoint.Stream, changes *checkpoint.Changes) {
	switch h.Type {
	case event.Gap:
		state.Open = &checkpoint.Gap{FromResourceVersion: h.FromResourceVersion, ResourceVersion: h.ResourceVersion}
		state.Owed = ""
		return
	case event.Synced:
		*state = checkpoint.Stream{ResourceVersion: h.ResourceVersion}
		return
	case event.Deleted:
		if state.Open != nil {
			state.Open.Deleted++
		}
		changes.Delete([]byte(h.Namespace), []byte(h.Name))
	default:
		if open := state.Open; open != nil {
			if h.Type == event.Added {
				open.Added++
			} else {
				open.Modified++
			}
			if event.Later(h.ResourceVersion, open.ResourceVersion) {
				open.ResourceVersion = h.ResourceVersion
			}
		}
		changes.Put([]byte(h.Namespace), []byte(h.Name), []byte(h.UID), []byte(h.ResourceVersion))
	}
	// Lines of a list do not come in the order of versions.
	if h.Origin == event.FromWatch && h.ResourceVersion != "" {
		*state = checkpoint.Stream{ResourceVersion: h.ResourceVersion}
	}
}

// KeepsLines is set in the first byte of the header of a stream whose lines have
// all that it keeps of an object: such an object behind KeptObject is what it keeps.
const (
	KeepsLines = 1
	KeptObject = 2
)

// keep does to what a stream keeps what the line h stands for; header is the
// stream's own. Where its lines do not carry all that it keeps, nothing is kept
// until the object's next line.
func keep(h *event.Header, header []byte, changes *checkpoint.Changes) {
	switch h.Type {
	case event.Added, event.Modified:
		if len(header) > 0 && header[0]&KeepsLines != 0 && !h.Truncated && len(h.Object) > 0 {
			changes.Keep([]byte(h.Namespace), []byte(h.Name), event.AppendUnpacked([]byte{KeptObject}, h.Object))
			return
		}
		fallthrough
	case event.Deleted:
		changes.Unkeep([]byte(h.Namespace), []byte(h.Name))
	}
}
