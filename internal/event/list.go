package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"kubejournal/internal/rawjson"
)

// ListMeta is what a list says about itself.
type ListMeta struct {
	ResourceVersion string
	Continue        string
	RemainingItems  int64 // 0 where the server does not say
}

// ListReader reads a list response item by item; never more than one is held.
type ListReader struct {
	buf buffer
	err error // returned by every further Next

	begun     bool
	inItems   bool // between the brackets of items
	firstItem bool
	itemsSeen bool
	meta      ListMeta
	metaSeen  bool
	kind      string
	status    StatusError // filled as if the response were one
	remnant   []byte      // what is left of an item that is too large
}

// NewListReader returns a reader of the list in r, whose items, like its other
// members, have at most maxItemBytes each; 0 or less is no limit.
func NewListReader(r io.Reader, maxItemBytes int) *ListReader {
	return &ListReader{buf: buffer{r: r, max: maxItemBytes}}
}

// Meta returns the list's metadata, complete once MetaSeen is true or Next has
// returned io.EOF.
func (l *ListReader) Meta() ListMeta { return l.meta }

// MetaSeen reports whether the list's metadata has been read.
func (l *ListReader) MetaSeen() bool { return l.metaSeen }

// Next returns the next item, an object, valid until the next call. The error
// is io.EOF only behind the list's closing brace: a list that is cut gives
// io.ErrUnexpectedEOF. It wraps ErrTooLarge, is a *SyntaxError, a *StatusError
// if the server sent a Status instead, or the reader's own.
//
// Of an item that is too large, but can be named, it returns a short form, which
// Scan refuses and Identify names.
func (l *ListReader) Next() ([]byte, error) {
	if l.err != nil {
		return nil, l.err
	}
	item, err := l.next()
	if err != nil {
		l.err = err
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			l.err = fmt.Errorf("read list: %w", err)
		}
		return nil, l.err
	}
	return item, nil
}

func (l *ListReader) next() ([]byte, error) {
	if !l.begun {
		l.begun = true
		if err := l.take('{', "a JSON object"); err != nil {
			return nil, err
		}
		c, err := l.buf.next()
		if err != nil {
			return nil, err
		}
		if c == '}' {
			return nil, l.end()
		}
		if err := l.member(); err != nil {
			return nil, err
		}
	}
	for {
		if l.inItems {
			item, err := l.item()
			if item != nil || err != nil {
				return item, err
			}
		}
		c, err := l.buf.next()
		if err != nil {
			return nil, err
		}
		switch c {
		case ',':
			l.buf.discard(1)
			if err := l.member(); err != nil {
				return nil, err
			}
		case '}':
			return nil, l.end()
		default:
			return nil, l.buf.syntax("expected a comma or the list's closing brace")
		}
	}
}

// end passes the closing brace.
func (l *ListReader) end() error {
	l.buf.discard(1)
	if l.kind == "Status" {
		return &l.status
	}
	if !l.itemsSeen {
		return l.buf.syntax("no items: this is not a list")
	}
	return io.EOF
}

// item returns the next item, or nil when the array has ended.
func (l *ListReader) item() ([]byte, error) {
	c, err := l.buf.next()
	if err != nil {
		return nil, err
	}
	if c == ']' {
		l.buf.discard(1)
		l.inItems = false
		return nil, nil
	}
	if !l.firstItem {
		if err := l.take(',', "a comma or the end of the items"); err != nil {
			return nil, err
		}
		if c, err = l.buf.next(); err != nil {
			return nil, err
		}
	}
	l.firstItem = false
	if c != '{' {
		return nil, l.buf.syntax("expected an item")
	}
	item, err := l.buf.value()
	if errors.Is(err, ErrTooLarge) {
		if l.remnant, err = l.buf.skim(l.remnant[:0], NewObjectSkimmer(), err); err == nil {
			item = l.remnant
		}
	}
	return item, err
}

// member passes one member of the list, or goes into its items.
func (l *ListReader) member() error {
	key, err := l.string("a key")
	if err != nil {
		return err
	}
	if err := l.take(':', "a colon"); err != nil {
		return err
	}
	c, err := l.buf.next()
	if err != nil {
		return err
	}
	if key == "items" {
		if l.itemsSeen {
			return l.buf.syntax("items repeated")
		}
		l.itemsSeen = true
		if c == '[' {
			l.buf.discard(1)
			l.inItems, l.firstItem = true, true
			return nil
		}
	}
	offset := l.buf.offset()
	value, err := l.buf.value()
	if err != nil {
		return err
	}
	if !json.Valid(value) {
		return &SyntaxError{Offset: offset, Msg: "malformed value"}
	}
	switch key {
	case "items":
		if !isNull(value) {
			return &SyntaxError{Offset: offset, Msg: "items are no array"}
		}
	case "metadata":
		return l.readMeta(value)
	case "kind":
		l.kind = stringValue(value)
	case "message":
		l.status.Message = stringValue(value)
	case "reason":
		l.status.Reason = stringValue(value)
	case "code":
		l.status.Code, _ = strconv.Atoi(string(value)) // no number: as if there were none
	}
	return nil
}

func (l *ListReader) readMeta(value []byte) error {
	var m struct {
		ResourceVersion    string `json:"resourceVersion"`
		Continue           string `json:"continue"`
		RemainingItemCount int64  `json:"remainingItemCount"`
	}
	if err := json.Unmarshal(value, &m); err != nil {
		return fmt.Errorf("read list metadata: %w", err)
	}
	if len(m.ResourceVersion) > maxName {
		return fmt.Errorf("read list metadata: %w", errLongName)
	}
	l.meta = ListMeta{m.ResourceVersion, m.Continue, m.RemainingItemCount}
	l.metaSeen = true
	return nil
}

// take passes white space and then c.
func (l *ListReader) take(want byte, what string) error {
	c, err := l.buf.next()
	if err != nil {
		return err
	}
	if c != want {
		if l.buf.offset() == 0 {
			return l.buf.garbage("expected " + what)
		}
		return l.buf.syntax("expected %s", what)
	}
	l.buf.discard(1)
	return nil
}

func (l *ListReader) string(what string) (string, error) {
	c, err := l.buf.next()
	if err != nil {
		return "", err
	}
	if c != '"' {
		return "", l.buf.syntax("expected %s", what)
	}
	offset := l.buf.offset()
	v, err := l.buf.value()
	if err != nil {
		return "", err
	}
	if !json.Valid(v) {
		return "", &SyntaxError{Offset: offset, Msg: "malformed string"}
	}
	return stringValue(v), nil
}

// stringValue decodes a JSON string; any other value is empty.
func stringValue(v []byte) string {
	if v[0] != '"' {
		return ""
	}
	if v = v[1 : len(v)-1]; bytes.IndexByte(v, '\\') < 0 && utf8.Valid(v) {
		return string(v)
	}
	return string(rawjson.Unquote(nil, v))
}
