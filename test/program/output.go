package program

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// Output keeps the lines that a program writes to its stdout: it is the Stdout of a command. A line without an end is
// lost with the program that wrote it.
type Output struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, b...)
	return len(b), nil
}

// Text returns the lines so far: all of them once the program has ended. The caller does not change them.
func (o *Output) Text() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	end := bytes.LastIndexByte(o.text, '\n') + 1
	return o.text[:end:end]
}

// Tail reads the lines that a program appends to a file, from before the file exists.
type Tail struct {
	path string
	file *os.File
	rest []byte // of a line whose end has not been read
}

// NewTail reads the file at path from its beginning.
func NewTail(path string) *Tail { return &Tail{path: path} }

// Next returns the lines that have become complete since the last call. They are the caller's.
func (t *Tail) Next() ([]byte, error) {
	if t.file == nil {
		file, err := os.Open(t.path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read output: %w", err)
		}
		t.file = file
	}
	more, err := io.ReadAll(t.file)
	if err != nil {
		return nil, fmt.Errorf("read output: %w", err)
	}
	text := slices.Concat(t.rest, more)
	end := bytes.LastIndexByte(text, '\n') + 1
	t.rest = slices.Clone(text[end:])
	return text[:end:end], nil
}

// Close lets go of the file.
func (t *Tail) Close() {
	if t.file != nil {
		t.file.Close()
	}
}
