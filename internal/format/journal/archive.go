package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// stoppable is a file whose writing ends with a context.
type stoppable struct {
	io.WriterAt
	ctx context.Context
}

func (w stoppable) WriteAt(p []byte, at int64) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.WriterAt.WriteAt(p, at)
}

// segment returns what a rotated file begins with.
func (j *File) segment(a *archive) (segment.Segment, error) {
	s := segment.Segment{Path: filepath.Join(filepath.Dir(j.path), a.file()), Gzip: a.upTo > 0 || !a.plain, Ours: true,
		UpTo: a.upTo}
	err := j.tidy.lister.Look(&s)
	return s, err
}

// pass is one of the tidier's over the rotated files, from the oldest on.
type pass struct {
	*File
	oldest uint64 // seq of the first line of the oldest file that stays

	// The indexes of the files before, from the last full one on, or from the first that was there; also of those that
	// are removed now.
	base []*index.Index
	open []io.Closer
}

func (p *pass) close() {
	for _, in := range p.open {
		_ = in.Close() // it is only read
	}
	p.base, p.open = nil, nil
}

// look opens the index of a file, nil where it has none that is right.
func (p *pass) look(a *archive) (*index.Index, io.Closer, error) {
	s, err := p.segment(a)
	if err != nil {
		return nil, nil, err
	}
	x, in, err := s.OpenIndex()
	if err != nil {
		return nil, nil, nil //nolint:nilerr // it is made again
	}
	return x, in, nil
}

// follow adds the index of a file to those of the files before.
func (p *pass) follow(x *index.Index, in io.Closer) {
	if x == nil || x.Since > 0 {
		p.close() // the next full one is made of what is behind this file, or of this
	}
	if x != nil {
		p.base, p.open = append(p.base, x), append(p.open, in)
	}
}

// remove removes a file by a limit.
func (p *pass) remove(a *archive, limit string) error {
	x, in, err := p.look(a)
	p.follow(x, in)
	return errors.Join(err, p.removeFiles(a, limit))
}

// firstSeq returns the seq of a file's first line.
func (p *pass) firstSeq(a *archive) (uint64, error) {
	s, err := p.segment(a)
	return s.FirstSeq, err
}

// keep compresses a file, if that is asked for, and makes its index, where these are missing.
func (p *pass) keep(a *archive, compress bool) error {
	if a.plain && a.zip { // a crash came between step 4 and 5 of compress
		if err := p.File.remove(a.name); err != nil {
			return err
		}
		a.plain = false
	}
	x, in, err := p.look(a)
	if err == nil && compress && a.plain && a.upTo == 0 {
		err = p.compress(a)
	} else if err == nil && x == nil && !p.tidy.bare[a.name] {
		err = p.index(a)
	} else {
		p.follow(x, in)
		return err
	}
	if in != nil {
		_ = in.Close() // it is only read
	}
	x, in, lookErr := p.look(a)
	p.follow(x, in)
	return errors.Join(err, lookErr)
}

// compress makes a gzip file of a rotated one, and its index:
//
//  1. the gzip file under a name that nobody reads, and synced: a crash leaves a file that the next pass removes;
//  2. the index; a crash leaves the plain file with its index. Without one the file is compressed all the same;
//  3. the gzip file is renamed, where it is complete from the first moment: a crash leaves both;
//  4. the folder is synced, so that the plain file is not the only one that a power cut takes;
//  5. the plain file is removed.
func (p *pass) compress(a *archive) error {
	dir, tmp := filepath.Dir(p.path), segment.TemporaryName(a.name+segment.Gzipped)
	_, x, err := p.begin(a)
	var in, writing disk.File
	if err == nil {
		in, err = p.disk.OpenFile(filepath.Join(dir, a.name), os.O_RDONLY, 0)
	}
	if err == nil {
		defer in.Close() //nolint:errcheck // it is only read
		writing, err = p.write(tmp, func(out io.WriterAt) error {
			return segment.Compress(out, in, a.name, x)
		})
	}
	if writing != nil {
		defer writing.Close() //nolint:errcheck // it is synced
	}
	if err != nil {
		return fmt.Errorf("compress journal: %w", errors.Join(err, p.File.remove(tmp)))
	}
	indexErr := p.writeIndex(a.name, x)
	if err := p.disk.Rename(filepath.Join(dir, tmp), filepath.Join(dir, a.name+segment.Gzipped)); err != nil {
		return fmt.Errorf("compress journal: %w", err)
	}
	a.zip = true
	if err := p.disk.SyncDir(dir); err != nil {
		return err
	}
	err = p.File.remove(a.name)
	a.plain = err != nil
	return errors.Join(indexErr, err)
}

// index makes the index of a rotated file. One that is damaged gets none. Close does not wait for a large one: it makes
// reading fail.
func (p *pass) index(a *archive) error {
	s, x, err := p.begin(a)
	if err != nil {
		return fmt.Errorf("index journal: %w", err)
	}
	var failed *fs.PathError
	switch err := s.AddTo(p.tidy.ctx, x); {
	case errors.As(err, &failed) || p.tidy.ctx.Err() != nil:
		return fmt.Errorf("index journal: %w", err)
	case err != nil:
		p.log.Warn("a rotated journal file is damaged and gets no index", zap.String("name", a.file()), zap.Error(err))
		p.tidy.bare[a.name] = true
		return nil
	}
	return p.writeIndex(a.name, x)
}

// begin begins the index of a file.
func (p *pass) begin(a *archive) (segment.Segment, *index.Builder, error) {
	s, err := p.segment(a)
	x := index.NewBuilder(s.Head)
	if len(p.base) >= index.FullEvery {
		x.Fill(p.base, p.oldest)
	}
	return s, x, err
}

// writeIndex writes the index of a rotated file under a name that nobody reads, syncs it and renames it: a crash leaves
// none, or what the next pass removes. A file without a line gets none.
func (j *File) writeIndex(name string, b *index.Builder) error {
	dir, tmp := filepath.Dir(j.path), segment.TemporaryName(name+segment.Indexed)
	writing, err := j.write(tmp, func(out io.WriterAt) error { return b.Save(out) })
	if writing != nil {
		defer writing.Close() //nolint:errcheck // it is synced
	}
	if errors.Is(err, index.ErrNoLine) {
		j.tidy.bare[name] = true
		return j.remove(tmp)
	}
	if err != nil {
		return fmt.Errorf("index journal: %w", errors.Join(err, j.remove(tmp)))
	}
	if err := j.disk.Rename(filepath.Join(dir, tmp), filepath.Join(dir, name+segment.Indexed)); err != nil {
		return fmt.Errorf("index journal: %w", err)
	}
	return nil
}

// write is disk.WriteTemporary of a file beside the active one. Close does not wait for a large one: it makes writing
// fail.
func (j *File) write(name string, fn func(io.WriterAt) error) (disk.File, error) {
	path := filepath.Join(filepath.Dir(j.path), name)
	return disk.WriteTemporary(j.disk, path, segment.FileMode, func(out io.WriterAt) error {
		return fn(stoppable{out, j.tidy.ctx})
	})
}
