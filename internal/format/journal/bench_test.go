package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// benchFile is how far a benchmark's file grows before it is started over.
const benchFile = 256 << 20

// BenchmarkJournal appends one line after the other, each with a write of its
// own. way=plain is what *os.File takes for as much.
func BenchmarkJournal(b *testing.B) {
	for _, size := range []int{2000, 6000, 60000} {
		name := fmt.Sprintf("line=%dKB/way=", size/1000)
		head := `{"seq":1,"time":"2026-11-20T16:10:22.000000000Z","object":"`
		line := append([]byte(head), bytes.Repeat([]byte("x"), size-len(head)-3)...)
		line = append(line, "\"}\n"...)
		b.Run(name+"kubejournal", func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "journal.jsonl")
			var f *File
			write(b, line, func() (err error) {
				if f != nil {
					if err := f.Close(); err != nil {
						return err
					}
					if err := os.Remove(path); err != nil {
						return err
					}
				}
				f, err = OpenFile(path, Options{})
				return err
			}, func() (int, error) { return f.Write(line) })
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
		})
		b.Run(name+"plain", func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "plain.jsonl")
			var f *os.File
			write(b, line, func() (err error) {
				if f != nil {
					if err := f.Close(); err != nil {
						return err
					}
				}
				f, err = os.Create(path)
				return err
			}, func() (int, error) { return f.Write(line) })
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// write appends lines to what begin opens, and starts over when that is full.
func write(b *testing.B, line []byte, begin func() error, appendLine func() (int, error)) {
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	size := benchFile
	for b.Loop() {
		if size >= benchFile {
			b.StopTimer()
			if err := begin(); err != nil {
				b.Fatal(err)
			}
			size = 0
			b.StartTimer()
		}
		n, err := appendLine()
		if err != nil || n != len(line) {
			b.Fatal(n, err)
		}
		size += n
	}
}

// BenchmarkCommit appends lines and does what comes before their commit. verify-ns is the
// part of it that looks for another process: in suspect=true, as in a File's first seconds after another process, it
// reads all lines once more.
func BenchmarkCommit(b *testing.B) {
	line := append(bytes.Repeat([]byte("x"), 5999), '\n')
	copy(line, `{"seq":1,"object":"`)
	for _, n := range []int{1, 1000} {
		for _, suspect := range []bool{true, false} {
			b.Run(fmt.Sprintf("lines=%d/suspect=%t", n, suspect), func(b *testing.B) {
				f, err := OpenFile(filepath.Join(b.TempDir(), "journal.jsonl"), Options{MaxSize: benchFile, MaxFiles: 1})
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				p := bytes.Repeat(line, n)
				b.SetBytes(int64(len(p)))
				verifying := time.Duration(0)
				for b.Loop() {
					f.owner.suspect = suspect
					for rest := p; len(rest) > 0; {
						n, err := f.Write(rest)
						if err != nil {
							b.Fatal(err)
						}
						rest = rest[n:]
					}
					if err := f.Sync(); err != nil {
						b.Fatal(err)
					}
					start := time.Now()
					if err := f.Verify(); err != nil {
						b.Fatal(err)
					}
					verifying += time.Since(start)
				}
				b.ReportMetric(float64(verifying.Nanoseconds())/float64(b.N), "verify-ns/op")
			})
		}
	}
}
