package client

import (
	"bytes"
	"cmp"
	"errors"
	"io"

	"kubejournal/internal/format/object"
	"kubejournal/internal/format/rawjson"
)

// frameReader splits a watch response into its JSON values.
//
// An API server sends each value as one compact line. Once the first has been seen to be that, a line is taken for a
// value if it begins and ends as one and either the next does not continue with it or, as long as that is not there,
// its braces pair up: nothing is parsed here that Scan parses again. All else is split by counting brackets outside of
// strings. Where a server changes from lines to another layout in mid-stream, a value may be cut wrongly; splitWatch or
// Scan then refuses it.
type frameReader struct {
	buf buffer
	err error // returned by every further Next

	lines    bool            // each value so far was a line of its own
	free     bool            // one did not: all are counted out from there on
	used     int             // length of the frame that the caller holds
	found    int             // length of the next frame where it is already known
	searched int             // no newline before this position
	bal      rawjson.Balance // how far the next frame has been counted out
	remnant  []byte          // what is left of a frame that is too large
}

// newFrameReader returns a reader of the values in r, each of at most maxBytes.
func newFrameReader(r io.Reader, maxBytes int) *frameReader {
	return &frameReader{buf: buffer{r: r, max: maxBytes}}
}

// Next returns the next value, an object or an array, without white space around it. It is valid until the next call of
// Next. The error is io.EOF at an end between values, io.ErrUnexpectedEOF within one, wraps object.ErrTooLarge, is a
// *object.SyntaxError, or is the reader's own.
//
// Of a watch event that is too large, but whose object can be named, it returns a short form, which Scan refuses and
// Identify names.
func (f *frameReader) Next() ([]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	f.release()
	for {
		n, err := f.find()
		if err == nil && n == 0 {
			err = f.buf.fill()
			if err == nil {
				continue
			}
			// A value without a newline after it may be complete all the same.
			var fault error
			if n, fault = f.find(); fault != nil {
				err = fault
			} else if n == 0 && len(f.buf.bytes()) > 0 {
				err = unexpected(err)
			}
		}
		if n > 0 {
			f.used, f.found, f.searched, f.bal = n, 0, 0, rawjson.Balance{}
			return f.buf.bytes()[:n], nil
		}
		if errors.Is(err, object.ErrTooLarge) {
			f.found, f.searched, f.bal = 0, 0, rawjson.Balance{}
			if f.remnant, err = f.buf.skim(f.remnant[:0], object.NewEventSkimmer(), err); err == nil {
				return f.remnant, nil
			}
		}
		f.err = during("read frame", err)
		return nil, f.err
	}
}

// Buffered reports whether Next has a value at hand without reading. It leaves the value that Next returned as it is.
func (f *frameReader) Buffered() bool {
	if f.err != nil {
		return false
	}
	f.release()
	n, err := f.find()
	return err == nil && n > 0
}

// release passes the frame that the caller held.
func (f *frameReader) release() {
	f.buf.discard(f.used)
	f.used = 0
}

// find looks for a complete value in what has been read: its length, or 0 if more must be read.
func (f *frameReader) find() (int, error) {
	if f.found > 0 {
		return f.found, nil
	}
	f.buf.space()
	b := f.buf.bytes()
	if len(b) == 0 {
		return 0, nil
	}
	if b[0] != '{' && b[0] != '[' {
		return 0, f.buf.syntax("expected a JSON object")
	}
	n, wait := 0, false
	if f.lines {
		n, wait = f.line(b)
	}
	if n == 0 && !wait {
		n = f.count(b)
	}
	if size := cmp.Or(n, len(b)); size > f.buf.max {
		return 0, tooLarge(size, f.buf.max)
	}
	f.found = n
	return n, nil
}

// line takes b's first line for a value if it looks like one. It says wait if there is no point in counting brackets
// before more has been read.
func (f *frameReader) line(b []byte) (n int, wait bool) {
	i := bytes.IndexByte(b[f.searched:], '\n')
	if i < 0 {
		f.searched = len(b)
		last := rawjson.TrimRight(b)
		more := f.buf.err == nil && len(b) <= f.buf.max
		return 0, more && b[len(last)-1] != '}'
	}
	i += f.searched
	f.searched = i
	line := rawjson.TrimRight(b[:i])
	if line[0] != '{' || line[len(line)-1] != '}' {
		return 0, false
	}
	// A newline is never inside a string, so the brace at the line's end closes something. The next value begins after
	// it, or this one continues.
	rest := rawjson.TrimLeft(b[i+1:])
	if len(rest) > 0 && (rest[0] == '{' || rest[0] == '[') ||
		len(rest) == 0 && bytes.Count(line, []byte("{")) == bytes.Count(line, []byte("}")) {
		return len(line), false
	}
	return 0, false
}

// count finds the value's end by its brackets and learns the stream's layout.
func (f *frameReader) count(b []byte) int {
	n, ok := f.bal.Run(b)
	if !ok {
		return 0
	}
	if rest := b[n:]; len(rest) > 0 {
		line := (rest[0] == '\n' || rest[0] == '\r') && bytes.IndexByte(b[:n], '\n') < 0
		f.free = f.free || !line
		f.lines = !f.free
	}
	return n
}
