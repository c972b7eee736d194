package segment

import (
	"fmt"
	"strings"
	"testing"

	"kubejournal/internal/format/index"
)

// TestEndlessLine makes the index of files with lines that are longer than one can be: no more than one line is held, the
// first that is passed over is named, and the lines around it are there.
func TestEndlessLine(t *testing.T) {
	defer func(was int) { maxLine = was }(maxLine)
	maxLine = 2*memberSize + 17
	line := func(seq int) string {
		return fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T12:00:00Z","type":"SYNCED","stream":"pods"}`, seq) + "\n"
	}
	first := line(1)
	endless := line(2)[:60] + strings.Repeat("x", 20*memberSize)
	for name, text := range map[string]string{
		"without an end":          first + line(2) + endless,
		"between":                 first + endless + "\n" + line(2),
		"no longer than allowed":  first + strings.Repeat("x", maxLine-1) + "\n" + line(2),
		"longer by one byte":      first + strings.Repeat("x", maxLine) + "\n" + line(2),
		"two, then another's end": first + endless + "\n" + endless + "\n" + line(2),
	} {
		for _, zip := range []bool{false, true} {
			s := segmentWith(t, text, zip)
			x, err := s.MakeIndex(t.Context())
			if err != nil || x.Lines != 2 {
				t.Fatalf("%s: %+v, %v", name, x, err)
			}
			last, err := x.Line(1)
			at := int64(strings.LastIndex(text, line(2)))
			if err != nil || last.Seq != 2 || last.Offset != at {
				t.Errorf("%s: %+v, %v", name, last, err)
			}
			allowed := strings.HasPrefix(name, "no longer")
			if allowed != (s.Long == nil) || !allowed && !strings.HasPrefix(s.Long.Error(), "the line at offset ") {
				t.Errorf("%s: %v", name, s.Long)
			}
		}
		x := &lineIndexer{Builder: index.NewBuilder(0)}
		most := 0
		for rest := []byte(text); len(rest) > 0; {
			n := min(len(rest), 1000)
			if _, err := x.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest, most = rest[n:], max(most, len(x.part))
		}
		if most > maxLine {
			t.Errorf("%s: %d bytes are held", name, most)
		}
	}
}

// TestEditedLine edits a line of a file without changing its length: the index made at its rotation says so.
func TestEditedLine(t *testing.T) {
	for _, zip := range []bool{false, true} {
		text := strings.ReplaceAll(lines(1, 3), `}`, `,"object":{"a":"one"}}`)
		was := segmentWith(t, text, zip)
		is := segmentWith(t, strings.Replace(text, `"one"`, `"two"`, 1), zip)
		x, err := was.MakeIndex(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		y, err := is.MakeIndex(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if same, err := index.Equal(x, y, true); err != nil || same {
			t.Errorf("%v, %v", same, err)
		}
		again, err := was.MakeIndex(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if same, err := index.Equal(x, again, true); err != nil || !same {
			t.Errorf("%v, %v", same, err)
		}
	}
}
