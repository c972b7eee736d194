package recorder

import (
	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
)

// A checkpoint may be used for a journal file, then for stdout, then for the file
// again. In between, lines go to stdout that the file does not have, and its reader
// is not told of them; none of its own lines is missing. So the file goes on under the
// seq that follows its last line, and no stream writes a GAP. Uncommitted lines of the
// file were mostly repeated on stdout, so only those are replayed that are later than
// the checkpoint's state.

// startOf is from where the file is read back: the last commit of its own lines.
func startOf(m checkpoint.Mark) checkpoint.FileMark {
	if file := m.LastFile(); file != (checkpoint.FileMark{}) {
		return file
	}
	return checkpoint.FileMark{Seq: m.Seq}
}

// goOn has seq go on behind the file's last line where the lines of the commit m went
// to stdout.
func (r *Recovered) goOn(m checkpoint.Mark, last uint64) {
	switch {
	case m.FirstSeq > 0:
	case m.File != (checkpoint.FileMark{}):
		r.Stdout = m.Seq
		if m.File.FirstSeq == 0 && 0 < last && last < r.Seq { // noted by a version that took stdout for an empty file
			r.Seq = last
		}
	case 0 < last && last < m.Seq: // a version that did not note how far the file was
		r.Seq, r.Stdout = last, m.Seq
	}
}

// isNews reports whether the line h is later than the state of its stream. Lines
// of a list do not come in the order of versions: they are as late as their list.
func isNews(h *event.Header, state *checkpoint.Stream) bool {
	position := state.From()
	switch {
	case position == "":
		return true
	case h.Type == event.Synced && state.Open != nil:
		return !event.Later(position, h.ResourceVersion)
	case h.Type == event.Gap, h.Type == event.Synced, h.Origin == event.FromWatch:
		return event.Later(h.ResourceVersion, position)
	}
	return state.Open != nil
}
