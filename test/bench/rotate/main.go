// Command rotate measures what it takes to compress and index a rotated file of a journal, beside what it took before
// there were indexes: compress/gzip, in one stream. It works on copies.
//
//	go run ./test/bench/rotate -rounds 5 bin/archive/journal.jsonl
package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/segment"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("rotate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 5, "rounds, each of another file of the journal")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		fmt.Fprintln(stderr, "usage: rotate [-rounds N] JOURNAL")
		return 2
	}
	if err := measure(stdout, flags.Arg(0), *rounds); err != nil {
		fmt.Fprintln(stderr, "rotate:", err)
		return 1
	}
	return 0
}

// result is what one way of compressing a file took.
type result struct {
	cpu time.Duration
	zip int64 // bytes
}

// measure prints a line for each round and way, as go test -bench does.
func measure(out io.Writer, path string, rounds int) error {
	all, err := segment.List(path)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s segment.Segment) bool { return s.Active || !s.Gzip })
	if len(all) < 2 {
		return errors.New("the journal has less than two compressed files")
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "rotate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var lines, indexes int64
	for _, s := range all {
		x, in, err := s.OpenIndex()
		if err != nil {
			return fmt.Errorf("index of %s: %w", s.Path, err)
		}
		_ = in.Close() // it is only read
		info, err := os.Stat(segment.IndexPath(s.Path))
		if err != nil {
			return err
		}
		lines, indexes = lines+x.Size, indexes+info.Size()
	}
	fmt.Fprintf(out, "BenchmarkRotate/way=all 1 0 ns/op %.3f index-%%\n", 100*float64(indexes)/float64(lines))
	for round := range rounds {
		i := 1 + (len(all)-2)*(round+1)/rounds // not the first: what is there before a file may be a part of its index
		if err := measureOne(out, dir, all[max(0, i-index.FullEvery):i], all[i]); err != nil {
			return err
		}
	}
	return nil
}

// measureOne measures a file that follows others.
func measureOne(out io.Writer, dir string, before []segment.Segment, s segment.Segment) error {
	plain := filepath.Join(dir, filepath.Base(s.Path[:len(s.Path)-len(".gz")]))
	size, err := unzip(plain, s.Path)
	if err != nil {
		return err
	}
	one, err := oneStream(plain, filepath.Join(dir, "one"))
	if err != nil {
		return err
	}
	for _, s := range before {
		for _, path := range []string{s.Path, segment.IndexPath(s.Path)} {
			if err := os.Link(path, filepath.Join(dir, filepath.Base(path))); err != nil {
				return err
			}
		}
	}
	product, err := rotated(dir, plain)
	if err != nil {
		return err
	}
	for _, r := range []struct {
		way string
		result
	}{{"one-stream", one}, {"kubejournal", product}} {
		fmt.Fprintf(out, "BenchmarkRotate/way=%s 1 %d ns/op %.4f cpu-s/GB %.3f zip-%%\n", r.way, r.cpu.Nanoseconds(),
			r.cpu.Seconds()/float64(size)*1e9, 100*float64(r.zip)/float64(size))
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
	}
	return err
}

// oneStream compresses a file as versions without indexes did.
func oneStream(plain, to string) (r result, err error) {
	start := cpu()
	in, err := os.Open(plain)
	if err != nil {
		return r, err
	}
	defer in.Close()
	f, err := os.Create(to)
	if err != nil {
		return r, err
	}
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 256<<10)
	z := gzip.NewWriter(buffered)
	_, err = io.CopyBuffer(z, io.NewSectionReader(in, 0, 1<<62), make([]byte, 256<<10))
	if err := errors.Join(err, z.Close(), buffered.Flush(), f.Sync()); err != nil {
		return r, err
	}
	r.cpu = cpu() - start
	info, err := f.Stat()
	if err == nil {
		r.zip = info.Size()
	}
	return r, errors.Join(err, os.Remove(to))
}

// rotated has the journal do it, with the file before already done.
func rotated(dir, plain string) (r result, err error) {
	start := cpu()
	j, err := journal.OpenFile(filepath.Join(dir, "journal.jsonl"), journal.Options{Compress: true})
	if err != nil {
		return r, err
	}
	j.Committed(1)
	for _, err = os.Stat(plain); err == nil && j.TidyError() == nil; _, err = os.Stat(plain) {
		<-time.After(5 * time.Millisecond)
	}
	if err := errors.Join(j.TidyError(), j.Close()); err != nil {
		return r, err
	}
	r.cpu = cpu() - start
	if _, err := os.Stat(segment.IndexPath(plain)); err != nil {
		return r, err
	}
	info, err := os.Stat(plain + ".gz")
	if err == nil {
		r.zip = info.Size()
	}
	return r, err
}

// unzip writes the lines of a compressed file.
func unzip(to, from string) (int64, error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	z, err := gzip.NewReader(in)
	if err != nil {
		return 0, err
	}
	out, err := os.Create(to)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, z)
	return n, errors.Join(err, out.Close())
}

// cpu returns what this process has taken, user and system.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it has no error
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
