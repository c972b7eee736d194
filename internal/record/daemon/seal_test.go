package daemon

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/verify"
	"kubejournal/test/invariant"
)

// files returns what the files of the journal hold, without compression, the active one last.
func (l *live) files() (all [][]byte) {
	l.t.Helper()
	for {
		paths, err := invariant.JournalFiles(l.journal())
		if err != nil {
			l.t.Fatal(err)
		}
		all = nil
		for _, path := range paths {
			content, readErr := invariant.ReadFile(path)
			err = errors.Join(err, readErr)
			all = append(all, content)
		}
		if !errors.Is(err, fs.ErrNotExist) { // else one has another name now
			if err != nil {
				l.t.Fatal(err)
			}
			return all
		}
	}
}

func (l *live) everything() []byte { return bytes.Join(l.files(), nil) }

// Each rotated file gets one SEALED line, whose checksums and chain are those that the documentation says, across restarts, and
// those that were rotated before it was asked for too.
func TestSeal(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	l := newLive(t)
	config := func(seal bool) {
		writeFile(t, l.config(), l.text("configmaps", fmt.Sprintf("output: {path: %q, maxSize: 4KiB, maxFiles: 0, seal: %t}", l.journal(), seal)))
	}
	puts := 0
	rotate := func(files int) {
		for len(l.files()) <= files {
			for range 10 {
				puts++
				l.put(configMaps, fmt.Sprintf("c%d", puts))
			}
			l.until("it is written", func() bool { return bytes.Contains(l.everything(), fmt.Appendf(nil, `"name":"c%d"`, puts)) })
		}
	}
	config(false)
	l.start()
	rotate(3)
	if bytes.Contains(l.everything(), []byte(`"SEALED"`)) {
		t.Error("it seals without being asked")
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	config(true)
	for round := range 3 {
		l.start()
		rotate(3 * (round + 2))
		l.until("all are sealed", func() bool { return bytes.Count(l.everything(), []byte(`"type":"SEALED"`)) >= len(l.files())-1 })
		if err := l.stop(); err != nil {
			t.Fatal(err)
		}
	}
	files, chain, seen := make(map[uint64][]byte), "", make(map[uint64]bool)
	for _, content := range l.files() {
		files[seqOf(t, content)] = content
	}
	for text := range bytes.Lines(l.everything()) {
		var is struct {
			Type, Stream, ID string
			Seq              uint64
			Sealed           *struct {
				FromSeq, ToSeq uint64
				Bytes          int
				SHA256, Chain  string
			}
		}
		if err := json.Unmarshal(text, &is); err != nil {
			t.Fatal(err)
		}
		if is.Type != "SEALED" {
			continue
		}
		s := is.Sealed
		content := files[s.FromSeq]
		last := bytes.LastIndexByte(content[:len(content)-1], '\n') + 1
		if seen[s.FromSeq] || s.ToSeq != seqOf(t, content[last:]) || s.Bytes != len(content) || s.SHA256 != fmt.Sprintf("%x", sha256.Sum256(content)) {
			t.Errorf("again: %t; %s", seen[s.FromSeq], text)
		}
		seen[s.FromSeq] = true
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %d %s\n", chain, s.FromSeq, s.ToSeq, s.Bytes, s.SHA256))
		if chain = fmt.Sprintf("%x", sum); s.Chain != chain || is.Stream != "journal" {
			t.Errorf("the chain is not %s: %s", chain, text)
		}
	}
	if len(seen) < 9 {
		t.Errorf("%d files are sealed", len(seen))
	}
	lines, err := invariant.ReadJournal(l.journal())
	if err == nil {
		err = invariant.All(lines, invariant.Options{})
	}
	if err != nil {
		t.Error(err)
	}
	j, err := archive.Open(l.journal(), func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if is, err := verify.Files(t.Context(), j, func(fault string) { t.Error(fault) }); err != nil || is.Sealed != len(seen) || is.Compacted > 0 {
		t.Errorf("%+v, %v", is, err)
	}
}

// seqOf returns the seq of the first of some lines.
func seqOf(t *testing.T, lines []byte) uint64 {
	t.Helper()
	head, _, _ := bytes.Cut(lines, []byte("\n"))
	var first struct{ Seq uint64 }
	if err := json.Unmarshal(head, &first); err != nil {
		t.Fatal(err)
	}
	return first.Seq
}
