package journal

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	timeLayout = "2006-01-02T15-04-05.000" // of a rotated file's name, UTC
	gzipped    = ".gz"
	compacted  = ".compacted-" // behind the name of the plain file; the last line's seq and gzipped follow
	indexed    = ".index"      // behind the name of the plain file
	covered    = ".coverage"
)

// naming gives and recognizes the names of a journal's files: those of journal.jsonl begin with journal- and a time.
type naming struct {
	active string // journal.jsonl
	stem   string // journal
	ext    string // .jsonl
}

func namingOf(path string) naming {
	n := naming{active: filepath.Base(path)}
	n.ext = filepath.Ext(n.active)
	n.stem = strings.TrimSuffix(n.active, n.ext)
	if n.stem == "" {
		n.stem, n.ext = n.active, ""
	}
	return n
}

// rotated returns the name of a file that was rotated at t.
func (n naming) rotated(t time.Time) string {
	return n.stem + "-" + t.UTC().Format(timeLayout) + n.ext
}

var rotatedForm = regexp.MustCompile(`(?s)^(.+)-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3})(\.[^.]*)?$`)

// rotation is what the name of a rotated file says.
type rotation struct {
	of         naming
	plain      string // the name before it was compressed
	at         time.Time
	compressed bool
	upTo       uint64 // of a compacted file: the seq of its last line; else 0
}

// parseRotated takes the name of a rotated file of any journal apart; ok is false for any other name.
func parseRotated(name string) (r rotation, ok bool) {
	r.plain, r.compressed = strings.CutSuffix(name, gzipped)
	if at := strings.LastIndex(r.plain, compacted); at >= 0 && r.compressed {
		n, err := strconv.ParseUint(r.plain[at+len(compacted):], 10, 64)
		if err != nil || n == 0 {
			return r, false
		}
		r.plain, r.upTo = r.plain[:at], n
	}
	parts := rotatedForm.FindStringSubmatch(r.plain)
	if parts == nil {
		return r, false
	}
	var err error
	r.at, err = time.Parse(timeLayout, parts[2])
	r.of = naming{active: parts[1] + parts[3], stem: parts[1], ext: parts[3]}
	return r, err == nil
}

// compactedName returns the name of a compacted file, by that of its first part and its last line's seq.
func compactedName(plain string, upTo uint64) string {
	return plain + compacted + strconv.FormatUint(upTo, 10) + gzipped
}

// IsRotated reports whether a file has the name of a rotated one, of any journal: nothing will be appended to it.
func IsRotated(path string) bool {
	_, ok := parseRotated(filepath.Base(path))
	return ok
}

// parse takes the name of a rotated file of this journal apart; ok is false for any other name.
func (n naming) parse(name string) (r rotation, ok bool) {
	r, ok = parseRotated(name)
	return r, ok && r.of == n
}

// related reports whether a file may hold lines of this journal: kubejournal has rotated it, or logrotate has, as
// journal.jsonl.1, journal.jsonl-20261120 or journal-20261120.jsonl. Another journal, such as journal-eu.jsonl, does
// not.
func (n naming) related(name string) bool {
	if _, ok := n.parse(name); ok {
		return true
	}
	name = strings.TrimSuffix(name, gzipped)
	if rest, ok := strings.CutPrefix(name, n.active); ok {
		return len(rest) > 1 && (rest[0] == '.' || rest[0] == '-') && isDigit(rest[1])
	}
	rest, ok := strings.CutPrefix(name, n.stem+"-")
	rest, ended := strings.CutSuffix(rest, n.ext)
	const date = 8 // digits, as in 20261120
	return ok && ended && len(rest) >= date && strings.TrimLeft(rest, "0123456789-") == "" && isDigit(rest[0])
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
