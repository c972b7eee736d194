package archive

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// Aside is a damaged coverage file that the daemon has set aside: until then nothing says what was watched.
type Aside struct {
	Path string
	At   time.Time
}

// findAside returns the last coverage file of a journal that was set aside, the zero Aside where none was.
func findAside(path string) (last Aside) {
	for at, name := range coverage.SetAside(path) {
		if at.After(last.At) {
			last = Aside{name, at}
		}
	}
	return last
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
	for _, s := range j.Segments {
		if s.Path != j.path {
			say(s.Path)
			if s.Indexed() {
				say(segment.IndexPath(s.Path))
			}
		}
	}
	say(coverage.Path(j.path))
	say(segment.AuditPath(j.path))
	say(segment.APIPath(j.path))
}
