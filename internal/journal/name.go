package journal

import (
	"path/filepath"
	"strings"
	"time"
)

const (
	timeLayout = "2006-01-02T15-04-05.000" // of a rotated file's name, UTC
	gzipped    = ".gz"
	temporary  = ".tmp"
)

// naming knows the names of a journal's files: of journal.jsonl, what begins
// with journal- and a time.
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

// rotated is the name of a file that was rotated at t.
func (n naming) rotated(t time.Time) string {
	return n.stem + "-" + t.UTC().Format(timeLayout) + n.ext
}

// parse takes the name of a rotated file apart; ok is false for any other.
func (n naming) parse(name string) (at time.Time, compressed, ok bool) {
	name, compressed = strings.CutSuffix(name, gzipped)
	rest, ok := strings.CutPrefix(name, n.stem+"-")
	if !ok {
		return at, false, false
	}
	rest, ok = strings.CutSuffix(rest, n.ext)
	if !ok {
		return at, false, false
	}
	at, err := time.Parse(timeLayout, rest)
	// Parse takes more than Format writes.
	return at, compressed, err == nil && n.rotated(at) == name
}

// compressing is the name under which the gzip file of a rotated one is made.
func (n naming) compressing(name string) string { return "." + name + gzipped + temporary }

// leftOver tells whether a name is one of compressing's.
func (n naming) leftOver(name string) bool {
	rest, ok := strings.CutSuffix(name, gzipped+temporary)
	if !ok || !strings.HasPrefix(rest, ".") {
		return false
	}
	_, compressed, ok := n.parse(rest[1:])
	return ok && !compressed
}

// related tells whether a file may hold lines of this journal: one that we have
// rotated, or that logrotate has, as journal.jsonl.1, journal.jsonl-20261120 or
// journal-20261120.jsonl. Another journal of the folder, journal-eu.jsonl, does not.
func (n naming) related(name string) bool {
	if _, _, ok := n.parse(name); ok {
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
