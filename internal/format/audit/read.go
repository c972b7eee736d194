package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"kubejournal/internal/format/rawjson"
)

// maxValue bounds a record, in bytes. It is a variable for tests only.
var maxValue = 256 << 20

// Count is what was read of audit logs.
type Count struct {
	Events  int // of any stage and any verb
	Writes  int // requests that may have written
	Others  int // records that have no event
	Damaged int // lines that cannot be read
}

// Add adds what was read of another log.
func (c *Count) Add(o Count) {
	c.Events, c.Writes = c.Events+o.Events, c.Writes+o.Writes
	c.Others, c.Damaged = c.Others+o.Others, c.Damaged+o.Damaged
}

// Read reads an audit log, plain or gzip, and calls each with the requests that may have written, and damaged with the
// number of a line that cannot be read, and why; what is left of such a line, and the lines after it, are read.
// The error is that of the input, such as io.ErrUnexpectedEOF where a gzip file is cut off: what was there was read.
func Read(in io.Reader, each func(Request), damaged func(line int, why string)) (Count, error) {
	r := reader{in: bufio.NewReaderSize(in, 256<<10), each: each, report: damaged}
	if magic, _ := r.in.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(r.in)
		if err != nil {
			return r.Count, err
		}
		r.in = bufio.NewReaderSize(z, 256<<10)
	}
	err := r.read()
	return r.Count, err
}

type reader struct {
	Count
	in     *bufio.Reader
	each   func(Request)
	report func(line int, why string)

	n     int // of the line that is read
	line  []byte
	doc   []byte // a record over several lines whose end is to come; nil for none
	begin int    // its first line
	ends  rawjson.Balance
}

func (r *reader) damaged(line int, why string) {
	r.Damaged++
	r.report(line, why)
}

func (r *reader) read() error {
	for {
		l, long, err := r.next()
		switch {
		case long:
			r.damaged(r.n, fmt.Sprintf("longer than %d MiB", maxValue>>20))
		case len(l) > 0:
			r.take(l)
		}
		if err == nil {
			continue
		}
		if r.doc != nil {
			r.damaged(r.begin, "the record has no end")
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	}
}

// next returns the next line. Of one that is too long nothing is kept.
func (r *reader) next() (l []byte, long bool, err error) {
	r.n++
	r.line = r.line[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		if long = long || len(r.line)+len(part) > maxValue; long {
			r.line = nil
		} else {
			r.line = append(r.line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return r.line, long, err
		}
	}
}

// take reads a line: records of one line each, or a part of one that was written over several.
func (r *reader) take(l []byte) {
	trimmed := rawjson.TrimSpace(l)
	if r.doc != nil && (bytes.HasPrefix(l, []byte(`{"`)) && whole(trimmed) || len(r.doc)+len(l) > maxValue) {
		// Lines inside a record are indented: it was cut off, and this is another one.
		r.damaged(r.begin, "the record has no end")
		r.doc = nil
	}
	if r.doc != nil {
		r.doc = append(r.doc, l...)
		if end, ok := r.ends.Run(r.doc); ok {
			doc := r.doc
			r.doc = nil
			r.record(doc[:end], r.begin)
			r.values(rawjson.TrimSpace(doc[end:]))
		}
		return
	}
	r.values(trimmed)
}

// whole reports whether a text is one JSON value.
func whole(b []byte) bool {
	end, ok := new(rawjson.Balance).Run(b)
	return ok && end == len(b)
}

// values reads the records of a line, one after the other. A list over several lines is read element by element.
func (r *reader) values(b []byte) {
	for {
		b = rawjson.TrimSpace(bytes.TrimLeft(b, ", \t\r\n"))
		switch string(b) {
		case "", "[", "]", "],":
			return
		case "{", "[{":
			r.doc, r.begin, r.ends = append([]byte(nil), '{', '\n'), r.n, rawjson.Balance{}
			return
		}
		end, ok := 0, false
		if b = afterPrefix(b); b[0] == '{' || b[0] == '[' {
			end, ok = new(rawjson.Balance).Run(b)
		}
		if !ok || !json.Valid(b[:end]) {
			r.damaged(r.n, "not JSON")
			b = resync(b)
			continue
		}
		r.record(b[:end], r.n)
		b = b[end:]
	}
}

// afterPrefix cuts off the time, and what else a container's log or an export to a file has before a record.
func afterPrefix(b []byte) []byte {
	first, _, _ := bytes.Cut(b, []byte{' '})
	if at := bytes.Index(b, []byte(" {")); at >= 0 && new(time.Time).UnmarshalText(first) == nil {
		return b[at+1:]
	}
	return b
}

// eventHead is what the API server begins an event with. In what it copies from requests and answers, members are
// sorted, or escaped as a part of a string: this order is in none of them.
var eventHead = []byte(`{"kind":"Event","apiVersion":"audit.k8s.io/`)

// resync returns what follows a record that was torn: the API server, after a crash, goes on where it had stopped.
func resync(b []byte) []byte {
	if len(b) > 1 {
		if at := bytes.Index(b[1:], eventHead); at >= 0 {
			return b[at+1:]
		}
	}
	return nil
}

// record reads the events of a record.
func (r *reader) record(b []byte, line int) {
	before := r.Events
	if err := r.find(b, 0); err != nil {
		r.damaged(line, err.Error())
	} else if r.Events == before {
		r.Others++
	}
}

// maxDepth is how deep an event lies in a record: CloudWatch Logs Insights has results, rows, and fields.
const maxDepth = 8

// inside are the members in which records have events or other records. An event lies nowhere else: what the objects
// in it say is not believed.
var inside = map[string]bool{
	"items":  true,                                     // of an EventList, as a webhook gets it
	"events": true, "logEvents": true, "message": true, // CloudWatch
	"results": true, "value": true, "@message": true, // CloudWatch Logs Insights
	"records": true, "properties": true, "log": true, "log_s": true, // Azure
}

// find reads the events in a value.
func (r *reader) find(v []byte, depth int) (err error) {
	if depth > maxDepth || len(v) == 0 {
		return nil
	}
	switch v[0] {
	case '"':
		inner := afterPrefix(rawjson.TrimSpace(rawjson.Unquote(nil, rawjson.Inside(v))))
		switch {
		case len(inner) == 0 || inner[0] != '{':
			return nil // another log's
		case !json.Valid(inner):
			return errors.New("the message of the record is not JSON")
		}
		return r.find(inner, depth+1)
	case '[':
		for e := range rawjson.Elements(v) {
			err = errors.Join(err, r.find(e, depth+1))
		}
		return err
	case '{':
	default:
		return nil
	}
	if isEvent(v) {
		r.Events++
		r.give(parseEvent(v))
		return nil
	}
	is := rawjson.Pick(v, "protoPayload", "logStream", "logStreamName", "category", "Category")
	if is[0] != nil {
		if text(rawjson.Pick(is[0], "serviceName")[0]) == "k8s.io" {
			r.Events++
			r.give(parseGoogle(v, is[0]))
		}
		return nil
	}
	// Exports hold other logs of the cluster too. Anyone who can write to one of those could forge an audit event.
	of := rawjson.Pick(v, "apiVersion", "kubernetes")
	if of[0] != nil && !strings.HasPrefix(text(of[0]), "audit.k8s.io/") || of[1] != nil && !ofServer(of[1]) {
		return nil
	}
	for _, name := range is[1:] {
		if name != nil && !strings.Contains(strings.ToLower(text(name)), "audit") {
			return nil
		}
	}
	for key, value := range rawjson.Members(v) {
		if inside[string(key)] {
			err = errors.Join(err, r.find(value, depth+1))
		}
	}
	return err
}

// ofServer reports whether a record is of an API server's container, or one that has its audit log, as the member says
// that collectors of containers' logs add.
func ofServer(kubernetes []byte) bool {
	is := rawjson.Pick(kubernetes, "container_name", "container")
	name := text(is[0])
	if is[0] == nil {
		name = text(rawjson.Pick(is[1], "name")[0])
	}
	return strings.Contains(name, "audit") || strings.Contains(name, "apiserver")
}

func (r *reader) give(q Request, ok bool) {
	if ok {
		r.Writes++
		r.each(q)
	}
}
