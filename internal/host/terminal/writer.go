package terminal

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Writer is the way out for text: what a terminal would act on is written as escapes, whoever wrote it, also into a
// pipe. Tabs and the ends of lines stay as they are; a value with either in it goes through Line or Cells first. JSON
// and YAML, where an escape of ours would be another value, go to Raw. It is safe for concurrent use.
type Writer struct {
	mu      sync.Mutex
	w       io.Writer
	colours bool
	rest    []byte // of the last Write: the beginning of a rune or of a colour
	out     []byte // scratch
}

// NewWriter returns a Writer to w, which may be one. With colours, those that the program itself gives its text remain.
func NewWriter(w io.Writer, colours bool) *Writer { return &Writer{w: Raw(w), colours: colours} }

// Raw returns what a Writer writes to, also one that is inside another writer, and any other writer as it is.
func Raw(w io.Writer) io.Writer {
	if safe, ok := w.(interface{ Raw() io.Writer }); ok {
		return safe.Raw()
	}
	return w
}

// Raw returns what the Writer writes to.
func (s *Writer) Raw() io.Writer { return s.w }

// colour is a sequence that colours text, or clears the rest of its line.
var colour = regexp.MustCompile(`^\x1b\[[0-9;]{0,16}[mK]`)

// maxColour is the length of the longest one.
const maxColour = 19

// Write writes text. A rune whose end is missing waits for the next Write.
func (s *Writer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := b
	if len(s.rest) > 0 {
		text = slices.Concat(s.rest, b)
	}
	s.out, s.rest = s.append(s.out[:0], text)
	if cap(s.out) > maxScratch {
		defer func() { s.out = nil }()
	}
	if _, err := s.w.Write(s.out); err != nil {
		return 0, err
	}
	return len(b), nil
}

const maxScratch = 1 << 20

// Close writes what waits. It does not close what the Writer writes to.
func (s *Writer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rest) == 0 {
		return nil
	}
	_, err := s.w.Write(AppendRaw(nil, s.rest))
	s.rest = nil
	return err
}

// append appends text, and returns what is not whole yet.
func (s *Writer) append(dst, text []byte) (out, rest []byte) {
	for len(text) > 0 {
		n := bytes.IndexFunc(text, needsCare)
		if n < 0 {
			return append(dst, text...), nil
		}
		dst, text = append(dst, text[:n]...), text[n:]
		if s.colours && text[0] == '\x1b' {
			if code := colour.Find(text); code != nil {
				dst, text = append(dst, code...), text[len(code):]
				continue
			}
			if len(text) < maxColour &&
				len(bytes.TrimLeft(bytes.TrimPrefix(text[1:], []byte("[")), "0123456789;")) == 0 {
				return dst, bytes.Clone(text)
			}
		}
		if !utf8.FullRune(text) {
			return dst, bytes.Clone(text)
		}
		_, size := utf8.DecodeRune(text)
		dst, text = AppendRaw(dst, text[:size]), text[size:]
	}
	return dst, nil
}

// needsCare reports whether a rune may be one that is not written as it is. U+FFFD may be a byte that is not UTF-8.
func needsCare(r rune) bool {
	return r != '\n' && r != '\t' && (r == utf8.RuneError || !unicode.IsGraphic(r))
}

// AppendLines appends text with the ends of its lines and its tabs as they are, and all else printable.
func AppendLines(dst, text []byte) []byte {
	for len(text) > 0 {
		n := bytes.IndexAny(text, "\t\n")
		if n < 0 {
			return AppendRaw(dst, text)
		}
		dst = append(AppendRaw(dst, text[:n]), text[n])
		text = text[n+1:]
	}
	return dst
}

// Line returns text as one printable line, without its end: for a cell, a title, a remark.
func Line(text string) string { return string(AppendRaw(nil, []byte(text))) }

// Note writes a remark for people as one line, with the program's name. It is the way out to stderr.
func Note(w io.Writer, text string) {
	_, _ = io.WriteString(w, "kubejournal: "+Line(text)+"\n") // stderr: nobody else to tell
}

// Cells returns the cells of a row for a tabwriter.
func Cells(cells ...string) string {
	for i, c := range cells {
		cells[i] = Line(c)
	}
	return strings.Join(cells, "\t")
}

// Comment returns text as what stands after # in YAML: one printable line, with blanks in the place of its line ends.
func Comment(text string) string { return Line(strings.Join(strings.Fields(text), " ")) }

// ShellWord returns text as one word of a command that a person may paste: as it is where every shell takes it for
// itself, else in single quotes. It is for POSIX shells, fish (which takes \' and \\ in single quotes) and, but for a
// word that has a single quote, PowerShell. A name that does not print has no word that shows what it is, and is shown
// with escapes.
func ShellWord(text string) string {
	if text = Line(text); text != "" && !strings.ContainsRune("-~=%@", rune(text[0])) &&
		!strings.ContainsFunc(text, func(r rune) bool { return !plainInShell(r) }) {
		return text
	}
	// A backslash or a quote ends the quotes and stands in double ones, as \ in single quotes means another thing in
	// fish.
	var b strings.Builder
	quoted := false
	enter := func(on bool) {
		if on != quoted {
			b.WriteByte('\'')
			quoted = on
		}
	}
	for _, r := range text {
		switch r {
		case '\'':
			enter(false)
			b.WriteString(`"'"`)
		case '\\':
			enter(false)
			b.WriteString(`"\\"`)
		default:
			enter(true)
			b.WriteRune(r)
		}
	}
	if enter(false); b.Len() == 0 {
		return "''"
	}
	return b.String()
}

// IsShellWord reports whether text is one word in every shell without quotes. bash inserts what several completions
// begin with as it is, and whoever may create a Role can name one x$(id)1 and another one x$(id)2.
func IsShellWord(text string) bool { return text != "" && ShellWord(text) == text }

// plainInShell reports whether no shell takes a rune for more than itself.
func plainInShell(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.:,/@%+=", r)
}
