package journal

import (
	"errors"
	"io"
	"syscall"

	"kubejournal/internal/format/line"
)

// ErrClosed says that nobody reads the output any more (a closed pipe), so that a retry is of no use.
var ErrClosed = errors.New("output is closed")

// Stdout is an output that cannot be read back. Lines written after the last commit are written again after a crash.
type Stdout struct{ w io.Writer }

// NewStdout returns a journal on w.
func NewStdout(w io.Writer) *Stdout { return &Stdout{w: w} }

// Write passes p on. An error that says that the reader is gone wraps ErrClosed.
func (s *Stdout) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		err = errors.Join(ErrClosed, err)
	}
	return n, err
}

// Sync does nothing: a pipe's reader owns what it has taken.
func (s *Stdout) Sync() error { return nil }

// Verify does nothing, for the same reason.
func (s *Stdout) Verify() error { return nil }

// Extent returns the zero Extent: what a reader has taken is not here.
func (s *Stdout) Extent() Extent { return Extent{} }

// Seal implements recorder.Output.
func (s *Stdout) Seal(uint64) *line.Seal { return nil }

// Mark returns none: a stream has no position that could be found again.
func (s *Stdout) Mark() Mark { return Mark{} }

// Committed does nothing: there is nothing to tidy up.
func (s *Stdout) Committed(uint64) {}

// Close leaves the writer open; it is not ours.
func (s *Stdout) Close() error { return nil }
