package journal

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/host/disk"
)

// timeOf is the time of the line seq as writeTimed writes it.
func timeOf(seq uint64) time.Time {
	return time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC).Add(time.Duration(seq) * time.Second)
}

// writeTimed writes n lines, each a second later than the one before.
func (r *rig) writeTimed(n uint64) {
	r.t.Helper()
	for ; n > 0; n-- {
		p := strings.Replace(numbered(r.next), "2026-11-20T16:10:22.000000000Z", timeOf(r.next).Format("2006-01-02T15:04:05.000000000Z07:00"), 1)
		if _, err := r.j.Write([]byte(p)); err != nil {
			r.t.Fatal(err)
		}
		r.next++
	}
}

func (r *rig) reaches(first uint64, segments int) {
	r.t.Helper()
	want := time.Time{}
	if first > 0 {
		want = timeOf(first)
	}
	if got := r.j.Extent(); !got.Oldest.Equal(want) || got.Segments != segments {
		r.t.Errorf("reaches back to %v in %d segments, want %v in %d", got.Oldest, got.Segments, want, segments)
	}
}

// How far back the journal reaches is known from its first line on, after each rotation and removal, and when it is opened
// again; also where others have taken files away.
func TestExtent(t *testing.T) {
	inBubble(t, Options{MaxSize: 700, MaxFiles: 4, MaxAge: time.Hour, Compress: true}, func(r *rig) {
		r.reaches(0, 1)
		r.writeTimed(1)
		r.reaches(1, 1)
		r.writeTimed(59)
		r.commitAll()
		r.wait(time.Second)
		if got := r.names(); got != "map[journal.jsonl:1 rotated.gz:4]" {
			t.Fatalf("files are %s", got)
		}
		r.reaches(29, 5)
		if err := r.j.Close(); err != nil {
			t.Fatal(err)
		}
		r.open()
		r.reaches(29, 5)
		r.commitAll()
		r.wait(2 * time.Hour)
		if got := r.names(); got != "map[journal.jsonl:1]" {
			t.Fatalf("files are %s", got)
		}
		r.reaches(57, 1)
	})
}

// A file that logrotate has renamed is still part of the journal.
func TestExtentOfRenamed(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.writeTimed(3)
		r.commitAll()
		r.move("journal.jsonl", "journal.jsonl.1")
		r.wait(time.Second)
		r.writeTimed(1)
		r.commitAll()
		r.wait(2 * tidyEvery)
		r.reaches(1, 2)
		if err := os.Remove(r.path + ".1"); err != nil {
			t.Fatal(err)
		}
		r.wait(2 * tidyEvery)
		r.reaches(4, 1)
	})
}

// blindDisk is one whose folders cannot be listed while it is blind.
type blindDisk struct {
	disk.FS
	blind *atomic.Bool
}

func (d blindDisk) ReadDir(path string) ([]fs.DirEntry, error) {
	if d.blind.Load() {
		return nil, errors.New("blind")
	}
	return d.FS.ReadDir(path)
}

// A folder that cannot be listed keeps nobody from writing, and the time is known once it can.
func TestExtentUnknown(t *testing.T) {
	var blind atomic.Bool
	blind.Store(true)
	inBubble(t, Options{Disk: blindDisk{disk.OS, &blind}}, func(r *rig) {
		r.writeTimed(3)
		r.commitAll()
		r.wait(time.Second)
		blind.Store(false)
		r.wait(2 * tidyEvery)
		r.reaches(1, 1)
	})
}

// An error of a rotation can be told from one of a write.
func TestRotationError(t *testing.T) {
	var blind atomic.Bool
	inBubble(t, Options{MaxSize: 300, Disk: blindDisk{disk.OS, &blind}}, func(r *rig) {
		r.write(2)
		blind.Store(true)
		_, err := r.j.Write([]byte(lines(3, 9)))
		for err == nil {
			_, err = r.j.Write([]byte(lines(3, 9)))
		}
		if !errors.As(err, new(*RotationError)) || !strings.Contains(err.Error(), "blind") {
			t.Errorf("%v", err)
		}
	})
}
