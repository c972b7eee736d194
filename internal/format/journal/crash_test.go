package journal

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
	"kubejournal/test/faultdisk"
)

// keeper writes a journal as the recorder does, with a checkpoint in memory.
// Line n always has the same content.
type keeper struct {
	t       *testing.T
	path    string
	options Options
	mark    Mark // committed
	seq     uint64
	syncs   int // commits until now
}

// run opens the journal, reads it back, and writes up to the line last. It
// returns what ended it: nil, or ErrKilled. Any other failure is tried again.
func (k *keeper) run(d *faultdisk.Disk, last uint64) error {
	o := k.options
	o.Disk = d
	j, err := again(func() (*File, error) { return OpenFile(k.path, o) })
	if err != nil {
		return err
	}
	defer j.Close()
	next, err := again(func() (uint64, error) {
		next := k.seq
		_, err := j.ReadBack(k.mark, k.seq, true, func(l []byte, n uint64) error {
			if string(l)+"\n" != numbered(n) {
				return ErrBadLine
			}
			if n != next+1 {
				k.t.Errorf("line %d read back after %d", n, next)
			}
			next = n
			return nil
		})
		return next, err
	})
	if err != nil {
		return err
	}
	if err := k.commit(j, next); err != nil {
		return err
	}
	for next < last {
		// A group of three lines, of which the file may take a part.
		p := []byte(lines(next+1, min(next+3, last)))
		for len(p) > 0 {
			n, err := j.Write(p)
			p = p[n:]
			if errors.Is(err, faultdisk.ErrKilled) {
				return err
			}
		}
		next = min(next+3, last)
		if next%6 == 0 || next == last {
			if err := k.commit(j, next); err != nil {
				return err
			}
		}
	}
	return k.tidied(d)
}

func (k *keeper) commit(j *File, seq uint64) error {
	mark := j.Mark()
	if _, err := again(func() (int, error) { return 0, cmp.Or(j.Sync(), j.Verify()) }); err != nil {
		return err
	}
	k.mark, k.seq = mark, seq
	k.syncs++
	j.Committed(seq)
	return nil
}

// tidied waits until the goroutine of tidy.go has nothing left to do, or cannot
// do anything any more.
func (k *keeper) tidied(d *faultdisk.Disk) error {
	time.Sleep(3 * tidyRetry) //nolint:forbidigo // the time of a synctest bubble
	synctest.Wait()
	_, err := d.Stat(k.path)
	return err
}

// again tries until it succeeds or the disk is dead.
func again[T any](try func() (T, error)) (T, error) {
	for range 20 {
		v, err := try()
		if err == nil || errors.Is(err, faultdisk.ErrKilled) {
			return v, err
		}
	}
	return try()
}

// files are all lines of a folder's journal in the order of seq, plain files
// before compressed ones of the same name.
func (k *keeper) files() string {
	k.t.Helper()
	entries, err := os.ReadDir(filepath.Dir(k.path))
	if err != nil {
		k.t.Fatal(err)
	}
	var parts []string
	for _, e := range entries {
		name := e.Name()
		if name == filepath.Base(disk.OwnerPath(k.path)) || strings.HasSuffix(name, segment.Indexed) {
			continue
		}
		if strings.HasSuffix(name, segment.Gzipped) && slices.ContainsFunc(entries, func(o os.DirEntry) bool { return o.Name()+segment.Gzipped == name }) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(filepath.Dir(k.path), name))
		if err != nil {
			k.t.Fatal(err)
		}
		if strings.HasSuffix(name, segment.Gzipped) {
			z, err := gzip.NewReader(bytes.NewReader(content))
			if err != nil {
				k.t.Fatalf("%s: %v", name, err)
			}
			if content, err = io.ReadAll(z); err != nil {
				k.t.Fatalf("%s: %v", name, err)
			}
		}
		parts = append(parts, string(content))
	}
	seqOf := func(s string) uint64 { n, _ := segment.SeqOf([]byte(s)); return n }
	slices.SortFunc(parts, func(a, b string) int { return cmp.Compare(seqOf(a), seqOf(b)) })
	return strings.Join(parts, "")
}

// names are the folder's files. The time of a rotation is left out, and so are the owner file and the indexes of files that
// are there.
func (k *keeper) names() string {
	k.t.Helper()
	entries, err := os.ReadDir(filepath.Dir(k.path))
	if err != nil {
		k.t.Fatal(err)
	}
	count := make(map[string]int)
	for _, e := range entries {
		name := e.Name()
		of, index := strings.CutSuffix(name, segment.Indexed)
		index = index && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == of || e.Name() == of+segment.Gzipped })
		if name == filepath.Base(disk.OwnerPath(k.path)) || index {
			continue
		}
		if r, ok := segment.NamesOf(k.path).Parse(name); ok {
			name = "rotated"
			if r.Compressed {
				name += segment.Gzipped
			}
			if time.Since(r.At) < 0 {
				k.t.Errorf("%s is named in the future", e.Name())
			}
		}
		count[name]++
	}
	return fmt.Sprint(count)
}

// extraLines is how many lines the second run writes.
const extraLines = 8

// TestEveryOperation stops the journal at each operation on its files in turn, in
// each way, with and without a power cut, and continues with a good disk.
func TestEveryOperation(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for _, c := range []struct {
		Options
		last uint64 // line of the first run
	}{
		{Options{MaxSize: 700, Compress: true}, 16},
		{Options{MaxSize: 500, Compress: true, MaxFiles: 2}, 20},
		{Options{MaxSize: 90}, 7}, // a file for each line
	} {
		t.Run(fmt.Sprintf("maxSize %d, maxFiles %d", c.MaxSize, c.MaxFiles), func(t *testing.T) {
			t.Parallel()
			everyOperation(t, c.Options, c.last)
		})
	}
}

func everyOperation(t *testing.T, o Options, last uint64) {
	t.Helper()
	kinds := make(map[faultdisk.Kind]int)
	runs := 0
	for _, fault := range faultdisk.Faults {
		cuts := []string{""}
		if fault.Kills() {
			cuts = []string{"", "power cut", "power cut, zeros"}
		}
		for _, cut := range cuts {
			for n := 1; ; n++ {
				struck := crashOnce(t, o, last, fault, n, cut)
				runs++
				if struck.N == 0 {
					break // fewer operations than n
				}
				kinds[struck.Kind]++
			}
		}
	}
	for _, kind := range []faultdisk.Kind{faultdisk.Create, faultdisk.Write, faultdisk.Sync, faultdisk.Rename, faultdisk.SyncDir} {
		if kinds[kind] == 0 {
			t.Errorf("%+v: no fault struck a %s", o, kind)
		}
	}
	t.Logf("%d runs, faults by operation: %v", runs, kinds)
}

// crashOnce runs a journal on a disk that fails at operation n, and again on a
// good one. struck is that operation.
func crashOnce(t *testing.T, o Options, crashAt uint64, fault faultdisk.Fault, n int, cut string) (struck faultdisk.Op) {
	t.Helper()
	dir, crashEnd := t.TempDir(), crashAt+extraLines
	count := 0
	decide := func(op faultdisk.Op) faultdisk.Fault {
		if op.Kind == faultdisk.Write || fault != faultdisk.Half && fault != faultdisk.KillHalf {
			count++ // only a write has a half
		}
		if count != n || struck.N != 0 {
			return faultdisk.None
		}
		struck = op
		return fault
	}
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if t.Failed() {
				t.Logf("maxSize %d, maxFiles %d: %s at operation %d, %s of %s, %s", o.MaxSize, o.MaxFiles, fault, n, struck.Kind, filepath.Base(struck.Path), cut)
			}
		}()
		k := &keeper{t: t, path: filepath.Join(dir, "journal.jsonl"), options: o}
		bad := faultdisk.New(decide)
		err := k.run(bad, crashAt)
		if err != nil && !errors.Is(err, faultdisk.ErrKilled) {
			t.Errorf("run: %v", err)
		}
		if err == nil && k.seq != crashAt {
			t.Errorf("committed %d of %d lines", k.seq, crashAt)
		}
		bad.Kill() // of a run that came to its end, too
		if cut != "" {
			if err := bad.PowerCut(dir, cut == "power cut, zeros"); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.run(faultdisk.New(nil), crashEnd); err != nil {
			t.Errorf("run again: %v", err)
		}
		all := k.files()
		if o.MaxFiles == 0 && all != lines(1, crashEnd) || !strings.HasSuffix(lines(1, crashEnd), all) || !strings.HasSuffix(all, lines(crashEnd-2, crashEnd)) {
			t.Errorf("the files do not hold the lines 1 to %d but %s", crashEnd, outline(all))
		}
		if err := k.checkIndexes(true); err != nil {
			t.Error(err)
		}
		names := k.names()
		if o.Compress && strings.Contains(names, "rotated:") || strings.Contains(names, ".tmp") {
			t.Errorf("files left over: %s", names)
		}
		if o.MaxFiles > 0 && !strings.Contains(names, fmt.Sprintf("rotated.gz:%d", o.MaxFiles)) {
			t.Errorf("%d rotated files are to be kept: %s", o.MaxFiles, names)
		}
	})
	return struck
}

// outline is the seqs of lines.
func outline(all string) string {
	var b strings.Builder
	for l := range strings.Lines(all) {
		n, ok := segment.SeqOf([]byte(l))
		if !ok || l != numbered(n) {
			fmt.Fprintf(&b, "%q ", l)
			continue
		}
		fmt.Fprintf(&b, "%d ", n)
	}
	return b.String()
}
