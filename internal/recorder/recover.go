package recorder

import (
	"fmt"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/internal/journal"
)

// recoverBytes bounds what Recover holds in memory between two commits.
const recoverBytes = 4 << 20

// CheckpointLost is the reason of a GAP that follows from a lost checkpoint.
const CheckpointLost = "CheckpointLost"

// Recovered is what Recover found.
type Recovered struct {
	Seq   uint64 // of the journal's last line
	Lines int    // that no commit knew of
	Cut   int64  // bytes of a torn last line
	Gone  uint64 // committed lines at the end that the file no longer has
}

// Recover brings the checkpoint up to the journal before any watch starts: each
// line after the last commit is read back and does to the checkpoint what it
// would have done had the commit come in time. Then it commits. A crash on the
// way does no harm: the next start finds the same lines, or fewer. In the place of
// a checkpoint that was lost, each stream in the journal owes a GAP.
func Recover(j *journal.File, store *checkpoint.Store) (Recovered, error) {
	mark, err := store.Mark()
	if err != nil {
		return Recovered{}, err
	}
	states, err := store.Streams()
	if err != nil {
		return Recovered{}, err
	}
	lost, err := store.Lost()
	if err != nil {
		return Recovered{}, err
	}
	rec := Recovered{Seq: mark.Seq}
	batch := checkpoint.NewBatch()
	touched := make(map[string]bool)
	var (
		header  event.Header
		changes checkpoint.Changes
	)
	rec.Cut, err = j.ReadBack(journal.Mark{FirstSeq: mark.FirstSeq, Offset: mark.Offset}, mark.Seq,
		func(line []byte, seq uint64) error {
			header = event.Header{}
			if err := event.ParseHeader(line, &header); err != nil {
				return fmt.Errorf("%w: %w", journal.ErrBadLine, err)
			}
			state := states[header.Stream]
			changes.Reset()
			apply(&header, &state, &changes)
			states[header.Stream] = state
			touched[header.Stream] = true
			batch.Add(header.Stream, &changes)
			rec.Seq = seq
			rec.Lines++
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
	if mark.FirstSeq > 0 { // else the file was empty at the commit
		rec.Gone = rec.Seq - min(rec.Seq, max(j.LastSeq(), mark.FirstSeq-1))
	}
	end := j.Mark()
	batch.SetMark(checkpoint.Mark{Seq: rec.Seq, FirstSeq: end.FirstSeq, Offset: end.Offset})
	return rec, store.Commit(batch)
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
		if open := state.Open; open != nil && h.Type == event.Added {
			open.Added++
		} else if open != nil {
			open.Modified++
		}
		changes.Put([]byte(h.Namespace), []byte(h.Name), []byte(h.UID), []byte(h.ResourceVersion))
	}
	// Lines of a list do not come in the order of versions.
	if h.Origin == event.FromWatch && h.ResourceVersion != "" {
		*state = checkpoint.Stream{ResourceVersion: h.ResourceVersion}
	}
}
