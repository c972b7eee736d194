// Package question answers what is asked of a journal: what was there at a moment, what became of it, what was deleted,
// and why an answer may not be complete.
package question

import "kubejournal/internal/ask/archive"

// Journal is an archive that can be asked. It is for one goroutine.
type Journal struct {
	*archive.Journal

	late ends // of the versions of a history
}

// Of returns a journal that can be asked.
func Of(j *archive.Journal) *Journal { return &Journal{Journal: j} }
