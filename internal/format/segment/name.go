package segment

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// What follows the name of a plain file.
const (
	Gzipped   = ".gz"
	Indexed   = ".index"
	covered   = ".coverage"
	audited   = ".audit"
	described = ".api"
	compacted = ".compacted-" // the last line's seq and Gzipped follow
)

const timeLayout = "2006-01-02T15-04-05.000" // of a rotated file's name, UTC

// FileMode is that of new files.
const FileMode = 0o640

// Names gives and recognizes the names of a journal's files: those of journal.jsonl begin with journal- and a time.
type Names struct {
	active string // journal.jsonl
	stem   string // journal
	ext    string // .jsonl
}

// NamesOf returns the names of the files of the journal at path.
func NamesOf(path string) Names {
	n := Names{active: filepath.Base(path)}
	n.ext = filepath.Ext(n.active)
	n.stem = strings.TrimSuffix(n.active, n.ext)
	if n.stem == "" {
		n.stem, n.ext = n.active, ""
	}
	return n
}

// Rotated returns the name of a file that was rotated at t.
func (n Names) Rotated(t time.Time) string {
	return n.stem + "-" + t.UTC().Format(timeLayout) + n.ext
}

var rotatedForm = regexp.MustCompile(`(?s)^(.+)-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3})(\.[^.]*)?$`)

// Rotation is what the name of a rotated file says.
type Rotation struct {
	of         Names
	Plain      string // the name before it was compressed
	At         time.Time
	Compressed bool
	UpTo       uint64 // of a compacted file: the seq of its last line; else 0
}

// parseRotated takes the name of a rotated file of any journal apart; ok is false for any other name.
func parseRotated(name string) (r Rotation, ok bool) {
	r.Plain, r.Compressed = strings.CutSuffix(name, Gzipped)
	if at := strings.LastIndex(r.Plain, compacted); at >= 0 && r.Compressed {
		n, err := strconv.ParseUint(r.Plain[at+len(compacted):], 10, 64)
		if err != nil || n == 0 {
			return r, false
		}
		r.Plain, r.UpTo = r.Plain[:at], n
	}
	parts := rotatedForm.FindStringSubmatch(r.Plain)
	if parts == nil {
		return r, false
	}
	var err error
	r.At, err = time.Parse(timeLayout, parts[2])
	r.of = Names{active: parts[1] + parts[3], stem: parts[1], ext: parts[3]}
	return r, err == nil
}

// CompactedName returns the name of a compacted file, by that of its first part and its last line's seq.
func CompactedName(plain string, upTo uint64) string {
	return plain + compacted + strconv.FormatUint(upTo, 10) + Gzipped
}

// IsRotated reports whether a file has the name of a rotated one, of any journal: nothing will be appended to it.
func IsRotated(path string) bool {
	_, ok := parseRotated(filepath.Base(path))
	return ok
}

// IndexPath returns the path of the index of a rotated segment, compressed or not.
func IndexPath(segment string) string {
	if r, ok := parseRotated(filepath.Base(segment)); ok {
		return filepath.Join(filepath.Dir(segment), r.Plain) + Indexed
	}
	return strings.TrimSuffix(segment, Gzipped) + Indexed
}

// AuditPath returns the path of the file that says who made the lines of the journal whose active file is at path.
func AuditPath(path string) string { return path + audited }

// APIPath returns the path of the file that says what the API server served while the journal whose active file is at
// path was written.
func APIPath(path string) string { return path + described }

// Parse takes the name of a rotated file of this journal apart; ok is false for any other name.
func (n Names) Parse(name string) (r Rotation, ok bool) {
	r, ok = parseRotated(name)
	return r, ok && r.of == n
}

// related reports whether a file may hold lines of this journal: kubejournal has rotated it, or logrotate has, as
// journal.jsonl.1, journal.jsonl-20261120 or journal-20261120.jsonl. Another journal, such as journal-eu.jsonl, does
// not.
func (n Names) related(name string) bool {
	if _, ok := n.Parse(name); ok {
		return true
	}
	name = strings.TrimSuffix(name, Gzipped)
	if rest, ok := strings.CutPrefix(name, n.active); ok {
		return len(rest) > 1 && (rest[0] == '.' || rest[0] == '-') && isDigit(rest[1])
	}
	rest, ok := strings.CutPrefix(name, n.stem+"-")
	rest, ended := strings.CutSuffix(rest, n.ext)
	const date = 8 // digits, as in 20261120
	return ok && ended && len(rest) >= date && strings.TrimLeft(rest, "0123456789-") == "" && isDigit(rest[0])
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
