package apidocs

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// Manifest names the documents of a moment, each list in the order of paths.
type Manifest struct {
	Documents []Document `json:"documents"`
	Missing   []Missing  `json:"missing,omitempty"`
}

// Document is what the server answered to GET of a path.
type Document struct {
	Path string `json:"path"` // without a query
	Type string `json:"type"` // its Content-Type
	ETag string `json:"etag,omitempty"`
	Size int64  `json:"size"` // bytes
	Sum  Sum    `json:"sha256"`
}

// Missing is a document that could not be recorded.
type Missing struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// MarshalText implements encoding.TextMarshaler.
func (s Sum) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Sum) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(s) {
		return errors.New("no SHA-256")
	}
	*s = Sum(b)
	return nil
}

// Documents is a file that is open for reading, as it was then: what is written meanwhile is not seen. It is for one
// goroutine.
type Documents struct {
	Damaged error // a part of the file that cannot be read, and was passed over; nil for none

	path string
	f    disk.File
	c    *content
}

// Moment is a time in which the server was seen to serve the same documents again and again.
type Moment struct {
	Since, Until time.Time
	Manifest

	of *Documents
}

// Open opens the file of the journal whose active file is at path, while the daemon writes it or not. Where there is
// none, both are nil.
func Open(path string) (*Documents, error) {
	path = segment.APIPath(disk.Real(path))
	f, c, err := open(disk.OS, path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w%s", path, err, remedy(err))
	}
	d := &Documents{path: path, f: f, c: c}
	if c.damaged != nil {
		d.Damaged = fmt.Errorf("%s: %w; what the API server served is not known for a part of the time", path,
			c.damaged)
	}
	return d, nil
}

// remedy is what a user can do about a file that cannot be used.
func remedy(err error) string {
	switch {
	case errors.Is(err, ErrNewer):
		return "; use that version"
	case errors.Is(err, fs.ErrPermission):
		return "; let this user read it"
	}
	return "; move it away: the daemon begins another one when it starts, and what the API server served before is " +
		"not known then"
}

// Close closes the file. It does nothing to nil.
func (d *Documents) Close() {
	if d != nil {
		_ = d.f.Close() // it is only read
	}
}

// Spans returns from when to when each moment is, in the order in which they were recorded. Their Manifest is empty.
func (d *Documents) Spans() []Moment {
	if d == nil {
		return nil
	}
	all := make([]Moment, len(d.c.spans))
	for n, s := range d.c.spans {
		all[n] = Moment{Since: instant(s.since), Until: instant(s.until)}
	}
	return all
}

// At returns the last moment that has begun at t, or the first one of all. doubt says why the server may have served
// other documents at t; it is "" where they are known. Without any moment, the first is nil.
func (d *Documents) At(t time.Time) (m *Moment, doubt string, err error) {
	if d == nil || len(d.c.spans) == 0 {
		return nil, "what the API server served is not known: the journal has no record of it", nil
	}
	spans, at := d.c.spans, -1
	for n, s := range spans {
		if s.since <= t.UnixNano() {
			at = n // of two that overlap, since the clock was set back, the later one
		}
	}
	text := func(ns int64) string { return instant(ns).Format(time.RFC3339) }
	switch {
	case at < 0:
		at = 0
		doubt = "what the API server served before " + text(spans[0].since) +
			" is not known: this is what it served from then on"
	case t.UnixNano() <= spans[at].until:
	case at+1 == len(spans):
		doubt = "what the API server served after " + text(spans[at].until) +
			" is not known: this is what it served until then"
	default:
		next := "something else"
		if spans[at+1].manifest == spans[at].manifest {
			next = "the same again"
		}
		doubt = fmt.Sprintf("what the API server served between %s and %s is not known: this is what it served until "+
			"then, and %s afterwards", text(spans[at].until), text(spans[at+1].since), next)
	}
	s := spans[at]
	m = &Moment{Since: instant(s.since), Until: instant(s.until), of: d}
	if m.Manifest, err = d.c.manifest(s.manifest); err != nil {
		return nil, "", fmt.Errorf("read %s: what the API server served at %s: %w%s", d.path, text(s.since), err,
			remedy(err))
	}
	return m, doubt, nil
}

func (c *content) manifest(sum Sum) (m Manifest, err error) {
	b, err := c.read(sum, maxManifest)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	return m, err
}

// Document returns which document the server had at a path; ok is false where none is recorded, and why may then say
// why not.
func (m *Moment) Document(path string) (doc Document, why string, ok bool) {
	if n := slices.IndexFunc(m.Documents, func(d Document) bool { return d.Path == path }); n >= 0 {
		return m.Documents[n], "", true
	}
	if n := slices.IndexFunc(m.Missing, func(d Missing) bool { return d.Path == path }); n >= 0 {
		why = m.Missing[n].Reason
	}
	return doc, why, false
}

// Read returns the bytes of a document of this moment, which are the server's.
func (m *Moment) Read(doc Document) ([]byte, error) {
	b, err := m.of.c.read(doc.Sum, MaxDocument)
	if err != nil {
		return nil, fmt.Errorf("read %s: %q of %s: %w%s", m.of.path, doc.Path, m.Since.Format(time.RFC3339), err,
			remedy(err))
	}
	return b, nil
}
