package journal

import (
	"errors"
	"strings"
	"testing"
)

// A position holds where the same line ends there, in a file as it is or
// compressed, and a reading continues from it.
func TestPosition(t *testing.T) {
	files := map[string]string{rotated1 + ".gz": lines(1, 4), rotated2: lines(5, 9), "journal.jsonl": lines(10, 12)}
	stop := errors.New("stop")
	for last := uint64(1); last <= 12; last++ {
		j := folderWith(t, files)
		var at Position
		_, err := j.ReadBack(Mark{}, 0, false, func(_ []byte, n uint64) error {
			if n > last {
				return stop
			}
			at = j.Position()
			return nil
		})
		if last < 12 && err != stop || at.Seq != last || at.Anchored || at.Hole {
			t.Fatalf("stopped after %d: %+v, %v", last, at, err)
		}
		if holds, err := j.Holds(at.Mark, last); !holds || err != nil {
			t.Errorf("%+v does not hold: %v", at, err)
		}
		for _, other := range []Mark{{at.FirstSeq, at.Offset - 1}, {at.FirstSeq, at.Offset + 1}, {at.FirstSeq, 1 << 20}, {at.FirstSeq + 1, at.Offset}, {0, at.Offset}} {
			if holds, err := j.Holds(other, last); holds || err != nil {
				t.Errorf("%+v holds in the place of %+v: %v", other, at, err)
			}
		}
		if holds, err := j.Holds(at.Mark, last+1); holds || err != nil {
			t.Errorf("line %d ends where %d does: %v", last+1, last, err)
		}
		var rest strings.Builder
		tail, err := j.ReadOn(at, func(l []byte, _ uint64) error {
			rest.Write(append(l, '\n'))
			return nil
		})
		if err != nil || tail != (Tail{}) || rest.String() != lines(last+1, 12) {
			t.Errorf("from %+v: %+v, %v, %q", at, tail, err, rest.String())
		}
		if passed, total := j.Progress(); passed != total || total == 0 {
			t.Errorf("from %d: read %d of %d bytes", last, passed, total)
		}
	}
}

// What was not anchored where a reading was broken off is not where it continues: a
// bad line may hide others that the server would not send again.
func TestReadOnIsNotAnchored(t *testing.T) {
	j := folderWith(t, map[string]string{"journal.jsonl": lines(1, 4) + "\x00\n" + lines(6, 7)})
	at := Position{Seq: 2, Mark: Mark{1, int64(len(lines(1, 2)))}}
	ignore := func([]byte, uint64) error { return nil }
	if _, err := j.ReadOn(at, ignore); !errors.Is(err, ErrDamaged) {
		t.Errorf("not anchored: %v", err)
	}
	at.Anchored, at.Hole = true, true
	if tail, err := j.ReadOn(at, ignore); err != nil || !tail.Hole || tail.Cut != int64(2+len(lines(6, 7))) {
		t.Errorf("anchored: %+v, %v", tail, err)
	}
}

// Where the committed line is not at its place, this is not the file that was
// committed; where it stands in another file, it may be another's too.
func TestReadBackMisplaced(t *testing.T) {
	all := lines(1, 9)
	for name, c := range map[string]struct {
		files map[string]string
		mark  Mark
		want  Tail
	}{
		"at its place":          {map[string]string{"journal.jsonl": all}, Mark{1, int64(len(lines(1, 6)))}, Tail{}},
		"elsewhere":             {map[string]string{"journal.jsonl": all}, Mark{1, int64(len(lines(1, 6))) + 3}, Tail{Hole: true}},
		"elsewhere, compressed": {map[string]string{rotated1 + ".gz": lines(1, 6), "journal.jsonl": lines(7, 9)}, Mark{1, 9}, Tail{Hole: true}},
		"in another file":       {map[string]string{"journal.jsonl": all}, Mark{3, int64(len(lines(3, 6)))}, Tail{Misplaced: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			tail, err := folderWith(t, c.files).ReadBack(c.mark, 6, false, func(l []byte, _ uint64) error {
				got.Write(append(l, '\n'))
				return nil
			})
			if err != nil || tail != c.want || got.String() != lines(7, 9) {
				t.Errorf("%+v, %v, %q, want %+v", tail, err, got.String(), c.want)
			}
		})
	}
}
