package client

import (
	"errors"
	"fmt"
	"io"

	"kubejournal/internal/format/object"
	"kubejournal/internal/format/rawjson"
)

const (
	firstBuffer = 4 << 10   // what an idle stream costs
	fastBuffer  = 128 << 10 // what a busy one reads at a time
	keptBuffer  = 1 << 20   // a larger one is given back once it has run empty
	slackTurns  = 4         // times that little of a buffer was used, before it is given back as well
	emptyReads  = 100       // reads without a byte or an error before giving up
)

// buffer is a window on a reader: b[start:end] has been read and not used.
type buffer struct {
	r          io.Reader
	b          []byte
	start, end int
	full       bool  // the last read has filled b: there is more to come
	slack      int   // how often on end b has run empty with little of it used
	off        int64 // bytes of the stream before b[0]
	max        int   // limit of one value in bytes
	err        error // from r; there is no more to come
}

func (f *buffer) bytes() []byte { return f.b[f.start:f.end] }
func (f *buffer) offset() int64 { return f.off + int64(f.start) }
func (f *buffer) discard(n int) { f.start += n }

// space drops leading white space.
func (f *buffer) space() {
	for f.start < f.end && rawjson.IsSpace(f.b[f.start]) {
		f.start++
	}
}

// fill reads at least one more byte. It may move the window: positions within bytes stay, slices of it do not.
func (f *buffer) fill() error {
	if f.err != nil {
		return f.err
	}
	f.room()
	for range emptyReads {
		n, err := f.r.Read(f.b[f.end:])
		f.end += n
		f.full = f.end == len(f.b)
		f.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	f.err = io.ErrNoProgress
	return f.err
}

// room makes place for more bytes.
func (f *buffer) room() {
	if f.start == f.end {
		f.off += int64(f.start)
		if f.slack++; f.end > len(f.b)/16 {
			f.slack = 0
		}
		f.start, f.end = 0, 0
		if len(f.b) > keptBuffer || len(f.b) > firstBuffer && f.slack >= slackTurns {
			f.b, f.slack = nil, 0
		}
	}
	switch {
	case f.b == nil:
		f.b = make([]byte, firstBuffer)
	case f.full && len(f.b) < fastBuffer:
		f.move(make([]byte, fastBuffer))
	case f.end < len(f.b):
	case f.start >= len(f.b)/2:
		f.move(f.b)
	default:
		f.move(make([]byte, 2*len(f.b)))
	}
}

// move brings the window to the beginning of b.
func (f *buffer) move(b []byte) {
	f.off += int64(f.start)
	f.end = copy(b, f.bytes())
	f.start, f.b, f.full = 0, b, false
}

// next returns the first byte that is not white space, reading as needed.
func (f *buffer) next() (byte, error) {
	for {
		f.space()
		if f.start < f.end {
			return f.b[f.start], nil
		}
		if err := f.fill(); err != nil {
			return 0, unexpected(err)
		}
	}
}

// value returns the complete JSON value at the window's start and passes it. The slice holds until the next call that
// reads.
func (f *buffer) value() ([]byte, error) {
	var bal rawjson.Balance
	for {
		v := f.bytes()
		n, ok := bal.Run(v)
		if ok {
			v = v[:n]
		}
		if len(v) > f.max {
			return nil, tooLarge(len(v), f.max)
		}
		if ok && n == 0 {
			return nil, f.syntax("expected a value")
		}
		if ok {
			f.discard(n)
			return v, nil
		}
		if err := f.fill(); err != nil {
			return nil, unexpected(err)
		}
	}
}

// skimLimits is how many times its limit a value may have that is skimmed: a value without an end is no object.
const skimLimits = 16

// skim passes the value at the window's start, which is too large to hold, and appends what s leaves of it to dst:
// a short form that names its object and that object.Renderer's Scan refuses. refused is the error where the value
// cannot be named or has no end.
func (f *buffer) skim(dst []byte, s *object.Skimmer, refused error) ([]byte, error) {
	for size := 0; ; {
		n, ended := s.Take(f.bytes())
		f.discard(n)
		size += n
		if ended {
			break
		}
		if size/skimLimits > f.max {
			return nil, refused
		}
		if err := f.fill(); err != nil {
			return nil, unexpected(err)
		}
	}
	short, err := s.AppendShort(dst)
	if err != nil {
		return nil, refused
	}
	return short, nil
}

func tooLarge(size, limit int) error {
	return fmt.Errorf("%w: over %d bytes, limit %d", object.ErrTooLarge, size, limit)
}

// syntax is the error for what is not there. What is there instead is quoted only at the beginning of a response: there
// it is an error page, later it may be a torn Secret.
func (f *buffer) syntax(msg string) error {
	const shown = 80
	if f.offset() == 0 {
		msg += fmt.Sprintf(", got %q", f.bytes()[:min(len(f.bytes()), shown)])
	}
	return &object.SyntaxError{Offset: f.offset(), Msg: msg}
}

// unexpected is err in the middle of a value.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// during adds to the error of a reader what it did, unless the error is an end.
func during(what string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
