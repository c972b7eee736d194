package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// Where young files take too much room, whoever fills them is to lose lines, and nobody else: of the namespace that has
// most bytes in all files, the lines of the stream that has most of these are removed from the oldest file that has
// any; and so on. Streams of objects in no namespace count as a namespace each. Each row of lines that is removed
// leaves one REMOVED line in its place, so that seq continues and a reader knows which lines are not there any more
// (see line.Fields.Next).
//
// A file of which lines were removed is compacted: it is always compressed, and has another name, so that no program
// that reads rotated files takes it for a new one. Small ones are joined, so that whoever writes very much does not
// leave very many. The name says up to which line it goes: it replaces all files that begin up to there, from the
// moment at which it has its name. These are removed then, after a crash by the next pass.

// share is what of the journal's room is counted together.
type share struct{ stream, namespace string }

// tenant returns whose share it is: a namespace or, of objects in none, a stream.
func (s share) tenant() string {
	if s.namespace == "" {
		return "\x00" + s.stream
	}
	return s.namespace
}

// leastGain is how many bytes on disk lines must take at least for a file to be rewritten without them.
const leastGain = 4 << 10

// usage is how the bytes of a rotated file are shared.
type usage struct {
	file  string
	size  int64 // on disk
	plain int64
	next  uint64          // the seq after its last line
	bytes map[share]int64 // on disk, as far as these can be told apart
}

// compact removes lines of young files.
func (r *room) compact() error {
	if r.options.MinAge <= 0 {
		return nil
	}
	all, err := r.usages()
	if err != nil {
		return err
	}
	spent := make(map[share]bool) // of which no file has enough
	for r.excess > 0 && r.tidy.ctx.Err() == nil {
		of, there := heaviest(all, spent)
		if !there {
			return nil
		}
		at := slices.IndexFunc(all, func(u usage) bool { return u.bytes[of] >= leastGain })
		if at < 0 {
			spent[of] = true
			continue
		}
		if all, err = r.without(all, at, of); err != nil {
			return fmt.Errorf("compact journal: %w", err)
		}
	}
	return nil
}

// heaviest returns the largest share of the tenant that has most, without those that are spent.
func heaviest(all []usage, spent map[share]bool) (most share, there bool) {
	shares, tenants := make(map[share]int64), make(map[string]int64)
	for _, u := range all {
		for of, n := range u.bytes {
			if !spent[of] {
				shares[of] += n
				tenants[of.tenant()] += n
			}
		}
	}
	for of, n := range shares {
		a, b := tenants[of.tenant()], tenants[most.tenant()]
		switch {
		case !there, a > b, a == b && of.tenant() < most.tenant():
		case of.tenant() != most.tenant(), n < shares[most], n == shares[most] && of.stream > most.stream:
			continue
		}
		most, there = of, true
	}
	return most, there
}

// usages returns how the bytes of each file are shared; of one without an index nothing is known.
func (r *room) usages() ([]usage, error) {
	known := r.tidy.usages
	r.tidy.usages = make(map[string]usage, len(r.all))
	all := make([]usage, len(r.all))
	for i := range r.all {
		a := &r.all[i]
		u, there := known[a.name]
		if !there || u.file != a.file() || u.size != a.size {
			var err error
			if u, err = r.usage(a); err != nil {
				return nil, err
			}
		}
		all[i], r.tidy.usages[a.name] = u, u
	}
	return all, nil
}

func (r *room) usage(a *archive) (usage, error) {
	u := usage{file: a.file(), size: a.size}
	p := pass{File: r.File}
	x, in, err := p.look(a)
	if err != nil || x == nil {
		return u, err
	}
	defer in.Close() // it is only read
	u.plain, u.next, u.bytes = x.Size, x.Next, make(map[share]int64)
	for of, err := range x.Usage() {
		if err != nil {
			return usage{file: u.file, size: u.size}, nil // a damaged index says nothing
		}
		u.bytes[share{of.Stream, of.Namespace}] += int64(float64(of.Bytes) / float64(max(x.Size, 1)) * float64(a.size))
	}
	return u, nil
}

// without writes a file again without the lines of a share, together with the file before it where that is compacted
// and both are small. It returns the usages of the files that there are then.
func (r *room) without(all []usage, at int, of share) ([]usage, error) {
	first := at
	if at > 0 && r.all[at-1].upTo > 0 && all[at-1].plain+all[at].plain-all[at].bytes[of] <= r.options.MaxSize {
		first--
	}
	parts := slices.Clone(r.all[first : at+1])
	is, lines, err := r.rewrite(parts, all[at].next-1, of)
	if err != nil {
		return nil, err
	}
	r.log.Warn("removed lines of the namespace that takes most room, as files are younger than output.minAge",
		zap.String("namespace", of.namespace), zap.String("stream", of.stream), zap.Int("lines", lines),
		zap.String("name", is.file()), zap.String("limit", r.limit))
	r.options.Removed(r.limit, lines)
	u, err := r.usage(&is)
	if err != nil {
		return nil, err
	}
	for i := range parts {
		r.excess -= parts[i].size
		delete(r.tidy.usages, parts[i].name)
	}
	r.excess += is.size
	delete(u.bytes, of) // what is left of it is not worth another pass
	r.tidy.usages[is.name] = u
	r.all = slices.Replace(r.all, first, at+1, is)
	return slices.Replace(all, first, at+1, u), nil
}

// rewrite makes one compacted file of consecutive ones, up to a line, without the lines of a share: how many that are
// it returns too.
//
//  1. what stays, under a name that nobody reads: a crash leaves a file that the next pass removes, and so it does
//     after 2;
//  2. the same as gzip, synced, and its index; of the file before there is none then, until the next pass;
//  3. the gzip file is renamed: from then on it is read in the place of all that it was made of;
//  4. the folder is synced;
//  5. what it was made of is removed; a crash leaves that to the next pass.
func (r *room) rewrite(parts []archive, upTo uint64, of share) (is archive, lines int, err error) {
	dir, p := filepath.Dir(r.path), pass{File: r.File}
	is = archive{name: parts[0].name, at: parts[len(parts)-1].at, upTo: upTo, index: true}
	before, in, err := p.look(&parts[0])
	if in != nil {
		defer in.Close() // it is only read
	}
	if err != nil {
		return is, 0, err
	}
	plain, zipped := segment.TemporaryName(is.file()+segment.Sifted), segment.TemporaryName(is.file())
	s := sifter{of: of, limit: r.limit}
	kept, err := r.write(plain, func(out io.WriterAt) error { return r.sift(&s, out, parts) })
	if kept != nil {
		defer kept.Close() //nolint:errcheck // it is removed
	}
	var writing disk.File
	var x *index.Builder
	if err == nil {
		var head segment.Segment
		_ = head.ReadHead(kept) // what cannot be read, reading it again says
		x = index.NewBuilder(head.Head)
		if before != nil && before.Since > 0 {
			oldest, firstErr := p.firstSeq(&r.all[0])
			err = firstErr
			x.Fill([]*index.Index{before.AtBeginning()}, oldest)
		}
	}
	if err == nil {
		writing, err = r.write(zipped, func(out io.WriterAt) error {
			return segment.Compress(out, kept, is.name, x)
		})
	}
	if writing != nil {
		defer writing.Close() //nolint:errcheck // it is synced
	}
	if err = errors.Join(err, r.File.remove(plain)); err == nil {
		err = r.writeIndex(is.name, x)
	}
	if err == nil {
		err = r.disk.Rename(filepath.Join(dir, zipped), filepath.Join(dir, is.file()))
	}
	if err != nil {
		return is, 0, errors.Join(err, r.File.remove(zipped))
	}
	r.tidy.lister.Forget(filepath.Join(dir, is.file()))
	if err := r.disk.SyncDir(dir); err != nil {
		return is, 0, err
	}
	for _, name := range []string{is.file(), is.name + segment.Indexed} {
		info, err := r.disk.Stat(filepath.Join(dir, name))
		if err != nil {
			return is, 0, err
		}
		is.size += info.Size()
	}
	var errs []error
	for i := range parts {
		errs = append(errs, r.replace(&parts[i], &is))
	}
	return is, s.removed, errors.Join(errs...)
}

// replace removes what another file was made of.
func (j *File) replace(a, by *archive) error {
	errs := []error{j.remove(a.name), j.remove(a.name + segment.Gzipped)}
	if a.name != by.name {
		errs = append(errs, j.remove(a.name+segment.Indexed))
	}
	if a.upTo > 0 && a.file() != by.file() {
		errs = append(errs, j.remove(a.file()))
	}
	for _, name := range a.replaced {
		errs = append(errs, j.remove(name))
	}
	return errors.Join(errs...)
}

// removeReplaced removes what a crash has left of the files that compacted ones were made of.
func (j *File) removeReplaced(all []archive) (left []archive, err error) {
	p, upTo := pass{File: j}, uint64(0)
	var errs []error
	for i := range all {
		a := &all[i]
		if upTo > 0 {
			first, err := p.firstSeq(a)
			if err != nil {
				return all, err
			}
			if 0 < first && first <= upTo {
				errs = append(errs, j.replace(a, &left[len(left)-1]))
				if a.upTo > 0 {
					errs = append(errs, j.remove(a.file()))
				}
				continue
			}
		}
		if a.upTo > 0 && (a.plain || a.zip || len(a.replaced) > 0 || a.upTo != upTo) {
			complete, err := p.isComplete(a)
			if err != nil {
				return all, err
			}
			if upTo = 0; complete {
				upTo = a.upTo
				errs = append(errs, j.replace(a, a))
				a.plain, a.zip, a.replaced = false, false, nil
			}
		}
		left = append(left, *a)
	}
	return left, errors.Join(errs...)
}

// isComplete reports whether a compacted file ends where its name says, as its index says. Without one, nothing is
// removed.
func (p *pass) isComplete(a *archive) (bool, error) {
	x, in, err := p.look(a)
	if err != nil || x == nil {
		return false, err
	}
	return x.Next == a.upTo+1, in.Close()
}

// sift writes the lines of some files that stay.
func (r *room) sift(s *sifter, out io.WriterAt, parts []archive) error {
	s.out = bufio.NewWriterSize(io.NewOffsetWriter(out, 0), copyBuffer)
	var in segment.Reader
	defer in.Close()
	for i := range parts {
		is, err := r.segment(&parts[i])
		if err == nil {
			err = in.Open(is, 0)
		}
		for err == nil {
			var l segment.RawLine
			if l, err = in.Next(); err == nil && !l.TooLong() {
				err = s.take(l.Bytes)
			}
		}
		if !errors.Is(err, io.EOF) { // a torn end is no line
			return err
		}
	}
	return errors.Join(s.flush(), s.out.Flush())
}

// sifter writes the lines that come, and a REMOVED line in the place of each row of lines of a share.
type sifter struct {
	of      share
	limit   string
	out     *bufio.Writer
	line    line.Fields
	removed int // lines

	row   line.Span // of lines that are removed; none where To is 0
	count int       // of these
	term  []byte    // of these
	head  []byte    // what the REMOVED line begins with
}

// take takes the next line, without its end.
func (s *sifter) take(l []byte) error {
	if s.line.Parse(l) != nil || !s.has(&s.line) {
		if err := s.flush(); err != nil {
			return err
		}
		_, err := s.out.Write(l)
		return cmp.Or(err, s.out.WriteByte('\n'))
	}
	f := &s.line
	is := line.Span{From: f.Seq, To: f.Seq, FromTime: f.Time, ToTime: f.Time}
	if written, late := f.Late(); late {
		is.FromTime = written
	}
	count := 1
	if before, ok := f.Removed(); ok {
		is, count = before, f.RemovedLines()
	} else {
		s.removed++
	}
	if s.row.To > 0 && (s.row.To+1 != is.From || !bytes.Equal(s.term, f.Value(line.FieldTerm))) {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if s.row.To == 0 {
		s.row, s.count, s.term = is, 0, append(s.term[:0], f.Value(line.FieldTerm)...)
		s.head = f.AppendRemovedHead(s.head[:0])
	}
	s.row.To = is.To
	if is.FromTime.Before(s.row.FromTime) {
		s.row.FromTime = is.FromTime
	}
	if is.ToTime.After(s.row.ToTime) {
		s.row.ToTime = is.ToTime
	}
	s.count += count
	return nil
}

// has reports whether a line is of the share: one about an object, or one that stands for such lines.
func (s *sifter) has(l *line.Fields) bool {
	if is, ok := l.Removed(); l.AboutStream() || l.SaysRemoved() && (!ok || is.From != l.Seq) {
		return false
	}
	return l.Is(line.FieldStream, s.of.stream) && l.Is(line.FieldNamespace, s.of.namespace)
}

// flush writes the REMOVED line of a row.
func (s *sifter) flush() error {
	if s.row.To == 0 {
		return nil
	}
	_, err := s.out.Write(s.row.AppendEnd(s.head, s.limit, s.count))
	s.row = line.Span{}
	return err
}
