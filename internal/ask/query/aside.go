package query

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/host/disk"
)

// aside is a damaged coverage file that the daemon has set aside: until then nothing says what was watched.
type aside struct {
	path string
	at   time.Time
}

// findAside returns the last coverage file of a journal that was set aside, the zero aside where none was.
func findAside(path string) (last aside) {
	for at, name := range coverage.SetAside(path) {
		if at.After(last.at) {
			last = aside{name, at}
		}
	}
	return last
}

// forgotten returns a doubt where a question is about a time that a damaged coverage file was about. What a question
// without a beginning is about begins with the journal's first line.
func (j *Journal) forgotten(since Moment) []Doubt {
	begin := since.Time
	if begin.IsZero() && len(j.segments) > 0 {
		begin = j.segments[0].FirstTime
	}
	if j.aside.at.IsZero() || begin.IsZero() || !begin.Before(j.aside.at) {
		return nil
	}
	return []Doubt{{To: j.aside.at, Reason: fmt.Sprintf(
		"the coverage file was damaged, and is kept as %s: what was not watched before is not known", j.aside.path)}}
}

// Missing returns a doubt for lines that are missing from a line on, as from between two others.
func (j *Journal) Missing(ctx context.Context, from uint64) ([]Doubt, error) {
	return again(j, func() ([]Doubt, error) {
		if j.Empty() || len(j.segments) == 0 {
			return nil, nil
		}
		since := Moment{Seq: from}
		first, last, err := j.inside(ctx, since, Moment{})
		if err != nil {
			return nil, err
		}
		return j.lost(ctx, first, last, since, Moment{})
	})
}

// noticeStrangers says which files of a journal in a folder that everybody may write to are not of the active file's
// user: their lines may be somebody else's. Of any other folder its owner has decided who may put files there.
func (j *Journal) noticeStrangers() {
	if disk.SharedFolder(filepath.Dir(j.path)) == nil {
		return
	}
	active, err := os.Stat(j.path)
	if err != nil {
		return
	}
	of, ok := disk.OwnerOf(active)
	if !ok {
		return
	}
	say := func(path string) {
		info, err := os.Stat(path)
		if err != nil {
			return
		}
		if other, ok := disk.OwnerOf(info); ok && other != of && other != 0 {
			j.notice(fmt.Sprintf("%s belongs to user %d, the journal's active file to user %d, and everybody may write"+
				" to their folder: somebody else may have made it", path, other, of))
		}
	}
	for _, s := range j.segments {
		if s.Path != j.path {
			say(s.Path)
			if s.indexed() {
				say(journal.IndexPath(s.Path))
			}
		}
	}
	say(coverage.Path(j.path))
}
