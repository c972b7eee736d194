package query

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"kubejournal/internal/coverage"
	"kubejournal/internal/disk"
	"kubejournal/internal/journal"
	"kubejournal/internal/line"
	"kubejournal/internal/merge"
)

// OpenAll opens several journals as one: those of replicas, and those of shards. With one path it is Open. The lines of several are
// merged into a temporary folder, which Close removes: seq is counted anew, and id and term are as they were.
func OpenAll(ctx context.Context, paths []string, notice func(string)) (*Journal, error) {
	if len(paths) == 1 {
		return Open(paths[0], notice)
	}
	of, err := openEach(paths, notice)
	defer func() {
		for _, j := range of {
			j.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	var plan *merge.Plan
	for tries := 0; ; tries++ {
		sources := make([]merge.Source, len(of))
		for i, j := range of {
			sources[i] = merge.Source{Name: j.path, Lines: j.lines}
		}
		if plan, err = merge.Scan(ctx, sources); err != nil {
			return nil, err
		}
		early := plan.Early()
		if len(early) == 0 {
			break
		}
		if tries == maxTries {
			return nil, errors.New("the replicas take over faster than their journals can be read")
		}
		for _, i := range slices.Backward(early) { // they are opened anew, behind the others
			again, err := Open(of[i].path, func(string) {})
			if err != nil {
				return nil, err
			}
			of[i].Close()
			of = append(slices.Delete(of, i, i+1), again)
		}
	}
	dir, err := os.MkdirTemp("", "kubejournal-")
	if err != nil {
		return nil, fmt.Errorf("merge journals: %w", err)
	}
	merged := &Journal{notice: notice, dir: dir}
	out := &mergedFiles{j: merged, next: 1}
	err = plan.Merge(ctx, out)
	if err = errors.Join(err, out.end()); err != nil {
		merged.Close()
		return nil, fmt.Errorf("merge journals: %w", err)
	}
	var all [][]coverage.Stream
	for _, j := range of {
		merged.unread = append(merged.unread, j.unread...)
		streams, err := j.coverageOf()
		if err != nil && !j.Empty() {
			merged.uncovered = errors.Join(merged.uncovered, fmt.Errorf("%s: %w", j.path, err))
		}
		all = append(all, streams)
	}
	if merged.coverage = coverage.Union(all...); len(merged.coverage) > 0 && merged.uncovered != nil {
		notice(merged.uncovered.Error())
		merged.uncovered = nil // what one has no coverage of is not covered
	}
	slices.SortStableFunc(merged.unread, func(a, b journal.Segment) int { return btoi(a.Active) - btoi(b.Active) })
	return merged, nil
}

// maxTries is how often journals are read again that a takeover has lengthened meanwhile.
const maxTries = 10

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// openEach opens journals, the one that was written last first: what the others had to say until then is there then.
func openEach(paths []string, notice func(string)) (all []*Journal, err error) {
	written := make(map[string]time.Time)
	for i, path := range paths {
		if slices.ContainsFunc(paths[:i], func(other string) bool { return same(path, other) }) {
			return nil, fmt.Errorf("journal %s is named twice", path)
		}
		if info, err := os.Stat(path); err == nil {
			written[path] = info.ModTime()
		}
	}
	paths = slices.SortedStableFunc(slices.Values(paths), func(a, b string) int { return written[b].Compare(written[a]) })
	for _, path := range paths {
		j, err := Open(path, notice)
		if err != nil {
			return all, err
		}
		all = append(all, j)
	}
	return all, nil
}

// same reports whether two paths are of one file.
func same(a, b string) bool {
	if disk.Absolute(a) == disk.Absolute(b) {
		return true
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// lines yields all lines in order, those that files have twice once.
func (j *Journal) lines(ctx context.Context) iter.Seq2[*line.Fields, error] {
	return func(yield func(*line.Fields, error) bool) {
		var r journal.Reader
		defer r.Close()
		var l line.Fields
		next := uint64(1)
		for _, s := range j.segments {
			err := r.Open(s.Segment, 0)
			for err == nil {
				if err = ctx.Err(); err != nil {
					break
				}
				var raw journal.Line
				if raw, err = r.Next(); err != nil || raw.Seq < next || l.Parse(raw.Bytes) != nil {
					continue
				}
				if next = raw.Seq + 1; !yield(&l, nil) {
					return
				}
			}
			if !errors.Is(err, io.EOF) {
				yield(nil, fmt.Errorf("read %s: %w", s.Path, err))
				return
			}
		}
	}
}

// mergedFiles are the files of a merged journal.
type mergedFiles struct {
	j    *Journal
	next uint64 // seq
	hole string // before the next line

	f    *os.File
	w    *bufio.Writer
	at   int64 // where the next line begins, in all files
	size int64 // of f
	read line.Fields
}

// mergedSize is how large a file is: one is indexed if the answer needs it.
const mergedSize = 64 << 20

func (m *mergedFiles) Next() uint64 { return m.next }

func (m *mergedFiles) Hole(source string, from, count uint64) error {
	what := missingLines(from, from+count)
	if m.hole != "" {
		what = m.hole + "; " + what
	}
	m.hole = fmt.Sprintf("%s in %s", what, source)
	m.next += count
	return m.end()
}

// end ends a file.
func (m *mergedFiles) end() error {
	if m.f == nil {
		return nil
	}
	err := errors.Join(m.w.Flush(), m.f.Close())
	m.f = nil
	return err
}

func (m *mergedFiles) Write(l []byte) (int64, error) {
	if m.size+int64(len(l)) > mergedSize {
		if err := m.end(); err != nil {
			return 0, err
		}
	}
	if m.f == nil {
		if err := m.begin(l); err != nil {
			return 0, err
		}
	}
	_, err := m.w.Write(l)
	if err == nil {
		err = m.w.WriteByte('\n')
	}
	at := m.at
	size := int64(len(l)) + 1
	m.at, m.size, m.next = m.at+size, m.size+size, m.next+1
	m.j.segments[len(m.j.segments)-1].Size = m.size
	return at, err
}

// begin begins a file with a line.
func (m *mergedFiles) begin(l []byte) (err error) {
	if err := m.read.Parse(l); err != nil {
		return err
	}
	path := filepath.Join(m.j.dir, fmt.Sprintf("%d.jsonl", len(m.j.segments)))
	if m.f, err = os.Create(path); err != nil {
		return err
	}
	if m.size = 0; m.w == nil {
		m.w = bufio.NewWriterSize(nil, 256<<10)
	}
	m.w.Reset(m.f)
	m.j.segments = append(m.j.segments, &segment{
		Segment: journal.Segment{Path: path, FirstSeq: m.next, FirstTime: m.read.Time}, hole: m.hole,
	})
	m.hole = ""
	return nil
}

func (m *mergedFiles) Read(at int64) (*line.Fields, error) {
	if m.f != nil {
		if err := m.w.Flush(); err != nil {
			return nil, err
		}
	}
	i := len(m.j.segments) - 1
	begin := m.at - m.size
	for ; begin > at; begin -= m.j.segments[i].Size {
		i--
	}
	var r journal.Reader
	defer r.Close()
	s := m.j.segments[i].Segment
	if err := r.Open(s, at-begin); err != nil {
		return nil, err
	}
	l, err := r.Next()
	if err != nil {
		return nil, err
	}
	return &m.read, m.read.Parse(slices.Clone(l.Bytes))
}
