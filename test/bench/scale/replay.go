package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"kubejournal/test/invariant"
)

// replay is a journal read line by line: what its reader knows, and what it was told. The lines' heads are cut by hand:
// a million decoded ones would take longer than the run.
type replay struct {
	world world
	seq   uint64
	live  [2][]uint64 // version by number, of the first objects and of the new ones; 0 is none
	lines map[string]int
	last  syncedLine // the last SYNCED line
	large int        // bytes of the longest line
}

// syncedLine is what is looked at in a SYNCED line.
type syncedLine struct {
	Type            string
	ResourceVersion string
	Count           counts
}

type counts struct{ Added, Modified, Deleted, Unchanged int }

func newReplay(w world) *replay {
	return &replay{world: w, live: [2][]uint64{make([]uint64, w.objects), make([]uint64, w.objects)},
		lines: map[string]int{}}
}

// files reads all files of a journal.
func (r *replay) files(journal string) error {
	names, err := invariant.JournalFiles(journal)
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
		err = r.read(f)
		_ = f.Close() // was only read
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// read reads lines to the end.
func (r *replay) read(from io.Reader) error {
	err := r.lead(from, math.MaxInt)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// lead reads so many lines.
func (r *replay) lead(from io.Reader, lines int) error {
	b := bufio.NewReaderSize(from, 1<<20) // no line is longer
	for range lines {
		line, err := b.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			if len(line) == 0 {
				return err
			}
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("read line %d: %w", r.seq+1, err)
		}
		if err := r.take(line); err != nil {
			return fmt.Errorf("line %d: %w in %.300s", r.seq+1, err, line)
		}
	}
	return nil
}

var errMember = errors.New("no such member")

// member cuts a value out of a line's head.
func member(head []byte, key string) ([]byte, error) {
	at := bytes.Index(head, []byte(`,"`+key+`":"`))
	if at < 0 {
		return nil, fmt.Errorf("%w: %s", errMember, key)
	}
	rest := head[at+len(key)+5:]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return nil, fmt.Errorf("%w: %s", errMember, key)
	}
	return rest[:end], nil
}

// take takes one line.
func (r *replay) take(line []byte) error {
	r.large = max(r.large, len(line))
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	comma := bytes.IndexByte(rest, ',')
	if !ok || comma < 0 {
		return fmt.Errorf("%w: seq", errMember)
	}
	seq, err := strconv.ParseUint(string(rest[:comma]), 10, 64)
	if err != nil {
		return err
	}
	if seq != r.seq+1 {
		return fmt.Errorf("seq %d where %d should be", seq, r.seq+1)
	}
	r.seq = seq
	head := line
	if at := bytes.Index(line, []byte(`,"object":`)); at >= 0 {
		head = line[:at]
	}
	typ, err := member(head, "type")
	if err != nil {
		return err
	}
	r.lines[string(typ)]++
	switch string(typ) {
	case "GAP":
		return nil
	case "SYNCED":
		r.last = syncedLine{}
		return json.Unmarshal(line, &r.last)
	}
	name, err := member(head, "name")
	if err != nil {
		return err
	}
	text, err := member(head, "resourceVersion")
	if err != nil {
		return err
	}
	version, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return err
	}
	return r.apply(string(typ), name, version)
}

// apply applies an event to what the reader knows.
func (r *replay) apply(typ string, name []byte, version uint64) error {
	live := r.live[0]
	digits, fresh := bytes.CutSuffix(bytes.TrimPrefix(name, []byte("cm-")), []byte("-new"))
	if fresh {
		live = r.live[1]
	}
	number, err := strconv.Atoi(string(digits))
	if err != nil || number < 0 || number >= len(live) {
		return fmt.Errorf("name %q", name)
	}
	known := live[number] != 0
	if known == (typ == "ADDED") {
		return fmt.Errorf("%s, and the object is known: %v", typ, known)
	}
	if typ == "MODIFIED" && version <= live[number] {
		return fmt.Errorf("MODIFIED from version %d to %d", live[number], version)
	}
	if typ == "DELETED" {
		version = 0
	}
	live[number] = version
	return nil
}

// check compares what the reader knows with the server's objects, and the last SYNCED line with what it should say.
func (r *replay) check(want counts) error {
	for number := range r.world.objects {
		var server [2]uint64
		objects, n := r.world.at(number)
		for _, o := range objects[:n] {
			if o.fresh {
				server[1] = r.world.versionOf(o)
			} else {
				server[0] = r.world.versionOf(o)
			}
		}
		if known := [2]uint64{r.live[0][number], r.live[1][number]}; known != server {
			return fmt.Errorf("object %d: the journal says versions %v, the server %v", number, known, server)
		}
	}
	if r.last.Type == "" || r.last.Count != want ||
		r.last.ResourceVersion != strconv.FormatUint(r.world.version(), 10) {
		return fmt.Errorf("the last SYNCED line is %+v where version %d and %+v should be", r.last,
			r.world.version(), want)
	}
	return nil
}

// difference is what a list of the second generation shows to one who knows the first.
func (w world) difference() (c counts) {
	for number := range w.objects {
		switch {
		case w.generation == 1:
			c.Added++
			continue
		case number%gone == 1:
			c.Deleted++
		case number%changed == 0:
			c.Modified++
		default:
			c.Unchanged++
		}
		if w.hasFresh(number) {
			c.Added++
		}
	}
	return c
}
