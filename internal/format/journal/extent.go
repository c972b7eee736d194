package journal

import (
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/format/segment"
)

// Extent is how far back a journal reaches. It is found out when the journal is opened and when its files change, not
// when it is asked for.
type Extent struct {
	Oldest   time.Time // of the first line of the oldest segment; zero where there is none, or it cannot be read
	FirstSeq uint64    // of the same line; 0 where there is none
	Segments int       // the active one included
	Limit    string    // by which a file was removed last; empty where none was since the journal was opened
}

// Extent returns how far back the journal reaches.
func (j *File) Extent() Extent { return *j.extent.Load() }

// survey finds out how far back the journal reaches. Only OpenFile and the tidier call it.
func (j *File) survey() {
	before := j.extent.Load()
	all, err := j.tidy.lister.List(j.path)
	if err != nil {
		j.log.Warn("cannot read how far back the journal reaches", zap.Error(err))
		return
	}
	listed := make(map[string]bool, len(all))
	for _, s := range all {
		listed[s.Path] = true
	}
	now := Extent{Oldest: before.Oldest, FirstSeq: before.FirstSeq, Segments: len(all), Limit: j.tidy.limit}
	if !listed[j.path] { // a new active file is about to be there
		now.Segments++
	}
	if len(all) > 0 {
		now.Oldest, now.FirstSeq = all[0].FirstTime, all[0].FirstSeq
	}
	if !j.extent.CompareAndSwap(before, &now) {
		j.tidy.wakeUp() // the journal's first line has been written meanwhile
	}
	j.tidy.findSeal(j, all)
}

// began takes note of the first line of a new file, which is the journal's first where there are no others.
func (j *File) began(line []byte) {
	now := *j.extent.Load()
	if now.Segments > 1 || !now.Oldest.IsZero() {
		return
	}
	now.Oldest = segment.TimeOf(line)
	now.FirstSeq, _ = segment.SeqOf(line)
	j.extent.Store(&now)
}
