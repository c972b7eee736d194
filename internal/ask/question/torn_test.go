package question_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/ask/verify"
	"kubejournal/internal/format/segment"
)

// TestTorn has files without a whole line, and others that end in one that is torn: what the other files have is
// found, and what a rotated file lacks is said.
func TestTorn(t *testing.T) {
	w := begin(t)
	s := w.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Synced() // line 1
	s.Put("kubectl", settings(1))
	w.Rotate()
	s.Put("kubectl", settings(2)) // 3
	s.Put("kubectl", settings(3))
	w.Rotate()
	s.Put("kubectl", settings(4)) // 5
	w.Confirm(false, s)
	w.Kill()
	files, err := segment.List(w.Path)
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	var plain [3][]byte
	for i, f := range files {
		var r segment.Reader
		if err := r.Open(f, 0); err != nil {
			t.Fatal(err)
		}
		for {
			l, err := r.Next()
			if err != nil {
				break
			}
			plain[i] = append(append(plain[i], l.Bytes...), '\n')
		}
		r.Close()
	}
	first, middle, active := plain[0], plain[1], plain[2]
	lastTorn := middle[:bytes.IndexByte(middle, '\n')+1+100]
	zeros := make([]byte, 4096)
	for name, c := range map[string]struct {
		files  [3][]byte // nil is none; rotated ones are as others copied them, without an index
		want   []uint64
		faults string // of verify
	}{
		"whole":                       {[3][]byte{first, middle, active}, []uint64{1, 2, 3, 4, 5}, ""},
		"active begins torn":          {[3][]byte{first, middle, active[:200]}, []uint64{1, 2, 3, 4}, ""},
		"active has no time yet":      {[3][]byte{first, middle, active[:12]}, []uint64{1, 2, 3, 4}, ""},
		"active lacks its newline":    {[3][]byte{first, middle, active[:len(active)-1]}, []uint64{1, 2, 3, 4}, ""},
		"active is empty":             {[3][]byte{first, middle, {}}, []uint64{1, 2, 3, 4}, ""},
		"active is zeros":             {[3][]byte{first, middle, zeros}, []uint64{1, 2, 3, 4}, ""},
		"active is torn, then zeros":  {[3][]byte{first, middle, slices.Concat(active[:200], zeros)}, []uint64{1, 2, 3, 4}, ""},
		"active ends in zeros":        {[3][]byte{first, middle, slices.Concat(active, zeros)}, []uint64{1, 2, 3, 4, 5}, ""},
		"there is no active file":     {[3][]byte{first, middle, nil}, []uint64{1, 2, 3, 4}, ""},
		"middle ends torn":            {[3][]byte{first, lastTorn, active}, []uint64{1, 2, 3, 5}, "has 100 damaged bytes at its end"},
		"middle is torn":              {[3][]byte{first, middle[:200], active}, []uint64{1, 2, 5}, "it has no whole line"},
		"the last two are torn":       {[3][]byte{first, middle[:200], active[:200]}, []uint64{1, 2}, "it has no whole line"},
		"all are torn":                {[3][]byte{first[:200], middle[:200], active[:200]}, nil, "it has no whole line"},
		"the only one is torn":        {[3][]byte{nil, nil, first[:200]}, nil, ""},
		"a copy is torn":              {[3][]byte{first, active[:200], active}, []uint64{1, 2, 5}, "it has no whole line"},
		"middle begins with a damage": {[3][]byte{first, slices.Concat(middle[:200], []byte("\n"), middle), active}, []uint64{1, 2, 3, 4, 5}, "damaged bytes"},
		"middle's first is damaged":   {[3][]byte{first, slices.Concat(middle[:200], middle[bytes.IndexByte(middle, '\n'):]), active}, []uint64{1, 2, 4, 5}, "damaged bytes"},
	} {
		for _, ours := range []bool{false, true} {
			dir := t.TempDir()
			path := filepath.Join(dir, "journal.jsonl")
			for i, content := range c.files {
				name := path
				if i < 2 && ours {
					rotated := []string{"journal-2026-11-20T12-00-01.000.jsonl", "journal-2026-11-20T12-00-02.000.jsonl"}
					name = filepath.Join(dir, rotated[i])
				} else if i < 2 {
					name += []string{".2", ".1"}[i]
				}
				if content == nil {
					continue
				}
				if err := os.WriteFile(name, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var notices []string
			opened, err := archive.Open(path, func(text string) { notices = append(notices, text) })
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			j := question.Of(opened)
			sel := selectionOf(t, "cm/settings")
			if err := j.Resolve(t.Context(), sel); err != nil && len(c.want) > 0 {
				t.Errorf("%s: %v", name, err)
			}
			if got := seqs(t, j, sel, argument.Moment{}, argument.Moment{}); !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
			for _, m := range []argument.Moment{argument.Latest(), {Seq: 100}, {Time: noon.Add(time.Hour)}} {
				state, _ := at(t, j, sel, m)
				last := len(c.want) - 1
				if last >= 0 && state != "settings="+string(rune('0'+c.want[last]-1)) || last < 0 && state != "" {
					t.Errorf("%s at %v: %q", name, m, state)
				}
			}
			if _, err := j.Uncovered(t.Context(), sel, argument.Moment{}, argument.Moment{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			var faults []string
			is, err := verify.Files(t.Context(), j.Journal, func(fault string) {
				if !strings.HasSuffix(fault, " has no index") {
					faults = append(faults, fault)
				}
			})
			all := strings.Join(faults, "\n")
			if err != nil || is.Lines != len(c.want) || (all != "") != (c.faults != "") || !strings.Contains(all, c.faults) {
				t.Errorf("%s: verify has %d lines, %q, %v", name, is.Lines, faults, err)
			}
			if c.faults == "" && notices != nil {
				t.Errorf("%s: %q", name, notices)
			}
			verify.Reindex(t.Context(), j.Journal, func(path string, err error) {
				if err != nil && !strings.Contains(err.Error(), "it has no whole line") {
					t.Errorf("%s: index %s: %v", name, path, err)
				}
			})
			j.Close()
			for i, content := range c.files {
				is, err := os.ReadFile([]string{path + ".2", path + ".1", path}[i])
				if err == nil && !bytes.Equal(is, content) || err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: file %d was changed, %v", name, i, err)
				}
			}
		}
	}
}
