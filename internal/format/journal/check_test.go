package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/test/faultdisk"
)

// What others do to the active file, at every point between lines written and
// committed: no line is lost that was not removed with it, none stands twice.
func TestTakenAway(t *testing.T) {
	for _, settled := range []bool{false, true} { // seen in its place after the last write
		for _, committed := range []bool{false, true} {
			name := fmt.Sprintf("settled %v, committed %v", settled, committed)
			prepare := func(r *rig) {
				r.write(20)
				if committed {
					r.commitAll()
				}
				if settled {
					r.wait(2 * checkEvery)
					r.write(1)
				}
			}
			after := func(r *rig) {
				r.wait(2 * checkEvery)
				r.write(5)
				r.commitAll()
				r.j.Close()
				r.open()
				if _, _, err := readBack(t, r.j, r.mark, r.seq); err != nil {
					t.Fatal(err)
				}
				r.write(5)
			}
			t.Run("renamed, "+name, func(t *testing.T) {
				inBubble(t, Options{MaxSize: 700}, func(r *rig) {
					prepare(r)
					r.move("journal.jsonl", "journal.jsonl.1")
					r.write(1) // not noticed yet: goes with it
					after(r)
					r.holds(1, "")
				})
			})
			t.Run("renamed and made anew, "+name, func(t *testing.T) {
				inBubble(t, Options{MaxSize: 700}, func(r *rig) {
					prepare(r)
					r.move("journal.jsonl", "journal.jsonl.1")
					if err := os.WriteFile(r.path, nil, 0o600); err != nil {
						t.Fatal(err)
					}
					after(r)
					r.holds(1, "")
				})
			})
			t.Run("removed, "+name, func(t *testing.T) {
				inBubble(t, Options{}, func(r *rig) {
					prepare(r)
					r.wait(2 * checkEvery)
					r.write(1) // checks first, so that everything before is known to be there
					last := r.next
					if err := os.Remove(r.path); err != nil {
						t.Fatal(err)
					}
					r.write(1)
					after(r)
					r.holds(last-1, "map[journal.jsonl:1]")
				})
			})
			t.Run("truncated, "+name, func(t *testing.T) {
				inBubble(t, Options{}, func(r *rig) {
					prepare(r)
					r.wait(2 * checkEvery)
					r.write(1)
					first := r.next
					if err := os.Truncate(r.path, 0); err != nil {
						t.Fatal(err)
					}
					r.write(3) // far after the end of the file
					after(r)
					r.holds(first, "map[journal.jsonl:1]")
				})
			})
			t.Run("truncated and quiet, "+name, func(t *testing.T) {
				inBubble(t, Options{}, func(r *rig) {
					prepare(r)
					first := r.next
					if err := os.Truncate(r.path, 0); err != nil {
						t.Fatal(err)
					}
					after(r)
					r.holds(first, "map[journal.jsonl:1]")
				})
			})
		}
	}
}

// Another's file in the active one's place is not touched; writing continues when
// it is gone.
func TestPlaceTaken(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.write(3)
		r.move("journal.jsonl", "journal.jsonl.1")
		if err := os.WriteFile(r.path, []byte("mine\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.wait(time.Second)
		for range 3 {
			if n, err := r.j.Write([]byte(numbered(4))); n != 0 || err == nil || !strings.Contains(err.Error(), "move it away") {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		if contentOf(t, r.path) != "mine\n" {
			t.Error("the other file was touched")
		}
		r.move("journal.jsonl", "mine.txt")
		r.write(2)
		if err := os.Remove(filepath.Join(filepath.Dir(r.path), "mine.txt")); err != nil {
			t.Fatal(err)
		}
		r.holds(1, "map[journal.jsonl:1 journal.jsonl.1:1]")
	})
}

// A torn line in a file that is renamed or removed is completed: there, or in
// the new one.
func TestTakenAwayTorn(t *testing.T) {
	for what, take := range map[string]func(path string) error{
		"renamed": func(path string) error { return os.Rename(path, path+".1") },
		"removed": os.Remove,
	} {
		t.Run(what, func(t *testing.T) {
			full := false
			d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
				switch {
				case full && op.Kind == faultdisk.Write && op.Size > 20:
					return faultdisk.Half
				case full:
					return faultdisk.Fail
				}
				return faultdisk.None
			})
			inBubble(t, Options{Disk: d}, func(r *rig) {
				r.write(3)
				r.wait(time.Second)
				r.write(1)
				full = true
				p := []byte(numbered(5))
				n, err := r.j.Write(p)
				if err == nil || n == 0 {
					t.Fatalf("Write = %d, %v", n, err)
				}
				if err := take(r.path); err != nil {
					t.Fatal(err)
				}
				r.wait(time.Second)
				p = p[n:]
				if n, err = r.j.Write(p); err == nil {
					t.Fatal("a full disk took a line")
				}
				full = false
				for p = p[n:]; len(p) > 0; p = p[n:] {
					if n, err = r.j.Write(p); err != nil {
						t.Fatal(err)
					}
				}
				r.next = 6
				r.wait(time.Second)
				r.write(2)
				r.commitAll()
				first := uint64(1)
				if what == "removed" {
					first = 4
				}
				r.holds(first, "")
			})
		})
	}
}

// A line whose write failed and was done all the same does not stay in a file
// that is renamed before it is written again.
func TestPersistedThenRenamed(t *testing.T) {
	strike := false
	d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
		if strike && op.Kind == faultdisk.Write {
			strike = false
			return faultdisk.FailPersisted
		}
		return faultdisk.None
	})
	inBubble(t, Options{Disk: d}, func(r *rig) {
		r.write(2)
		strike = true
		if n, err := r.j.Write([]byte(numbered(3))); err == nil || n != 0 {
			t.Fatalf("Write = %d, %v", n, err)
		}
		r.move("journal.jsonl", "journal.jsonl.1")
		r.wait(2 * checkEvery)
		r.write(3)
		r.commitAll()
		r.holds(1, "map[journal.jsonl:1 journal.jsonl.1:1]")
	})
}

// What a truncated file is to begin with is not forgotten when it cannot be
// written at once, and nothing is written before it.
func TestTruncatedAndFailing(t *testing.T) {
	failing := false
	d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
		if failing && op.Kind == faultdisk.Write {
			return faultdisk.Fail
		}
		return faultdisk.None
	})
	inBubble(t, Options{Disk: d}, func(r *rig) {
		r.write(20)
		r.commitAll()
		if err := os.Truncate(r.path, 0); err != nil {
			t.Fatal(err)
		}
		r.write(2) // not noticed yet
		failing = true
		for range 2 {
			if err := r.j.Sync(); !errors.Is(err, faultdisk.ErrInjected) {
				t.Fatalf("Sync = %v", err)
			}
		}
		if n, err := r.j.Write([]byte(numbered(23))); n != 0 || err == nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		failing = false
		r.commitAll()
		r.write(2)
		r.holds(21, "map[journal.jsonl:1]")
	})
}

// A file that is cut within a line continues with a whole one.
func TestCutShort(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.write(5)
		r.commitAll() // looks: what comes now has not been seen in its place
		r.write(3)
		if err := os.Truncate(r.path, r.j.Mark().Offset-int64(len(numbered(8)))-20); err != nil {
			t.Fatal(err)
		}
		r.wait(2 * checkEvery)
		r.write(2)
		// The one line that stood there as a whole, and the new ones.
		if got, want := r.files(), numbered(6)+lines(9, 10); got != want {
			t.Errorf("the file holds %s, want %s", outline(got), outline(want))
		}
	})
}

// A rename by others while the tail is read back is left to the first Write.
func TestRenamedInReadBack(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.write(6)
		r.j.Close()
		r.open()
		tail, err := r.j.ReadBack(Mark{}, 0, true, func(_ []byte, n uint64) error {
			if n == 2 {
				r.move("journal.jsonl", "journal.jsonl.1")
			}
			return r.j.Sync() // as Recover does on its way
		})
		if err != nil || tail != (Tail{}) || r.j.Mark() != (Mark{FirstSeq: 1, Offset: int64(len(lines(1, 6)))}) {
			t.Fatalf("ReadBack = %+v, %v, the mark is %+v", tail, err, r.j.Mark())
		}
		r.wait(2 * checkEvery)
		r.write(2)
		r.commitAll()
		r.holds(1, "map[journal.jsonl:1 journal.jsonl.1:1]")
	})
}

// A file that others remove twice before it is checked again still carries over the line that no check has seen in its
// place.
func TestRemovedTwice(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.write(3)
		r.commitAll() // checks: line 4 is not seen yet
		r.write(1)
		for range 2 {
			if err := os.Remove(r.path); err != nil {
				t.Fatal(err)
			}
			if err := r.j.Sync(); err != nil {
				t.Fatal(err)
			}
			r.holds(4, "map[journal.jsonl:1]")
		}
		r.write(1)
		r.commitAll()
		r.holds(4, "map[journal.jsonl:1]")
	})
}

// That others have truncated the file is on disk before the next commit: a power cut does not bring back lines that stand
// before others of the same seq.
func TestTruncationIsSynced(t *testing.T) {
	for _, unseen := range []uint64{0, 2} { // lines written since the last check
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			d := faultdisk.New(nil)
			r := &rig{keeper: &keeper{t: t, path: filepath.Join(dir, "journal.jsonl"), options: Options{Disk: d}}, next: 1}
			r.open()
			defer func() { r.j.Close() }()
			r.write(20)
			r.commitAll()
			if err := os.Truncate(r.path, 0); err != nil {
				t.Fatal(err)
			}
			r.write(unseen)
			r.commitAll()
			d.Kill()
			if err := d.PowerCut(dir, false); err != nil {
				t.Fatal(err)
			}
			if got, want := contentOf(t, r.path), lines(21, 20+unseen); got != want {
				t.Errorf("after a power cut the file holds %s, want %s", outline(got), outline(want))
			}
		})
	}
}
