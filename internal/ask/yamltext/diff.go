package yamltext

import (
	"bytes"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"

	"kubejournal/internal/host/terminal"
)

// Side is one of two texts that are compared.
type Side struct {
	Title string // for the header
	Text  []byte // YAML as Append writes it; empty where there is no object
}

// The colours of a diff, as git has them.
const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	cyan  = "\x1b[36m"
	reset = "\x1b[m"
)

// AppendDiff appends a unified diff, nothing where the texts are the same. A hunk is headed by the path of what its
// first change is in, as spec.template.spec.containers[web]. The text is printable.
//
// The diff is anchored at lines that both texts have once. It takes O(n log n) time.
func AppendDiff(dst []byte, from, to Side, colour bool) []byte {
	hunks := diff.Diff("", from.Text, "", to.Text)
	if len(hunks) == 0 {
		return dst
	}
	line := func(code string, prefix, text []byte, suffix string) {
		if colour && code != "" {
			dst = append(dst, code...)
		}
		dst = terminal.AppendLines(append(dst, prefix...), text)
		if colour && code != "" {
			dst = append(dst, reset...)
		}
		dst = append(append(dst, suffix...), '\n')
	}
	line(bold, []byte("--- "), []byte(from.Title), "")
	line(bold, []byte("+++ "), []byte(to.Title), "")
	for range 3 { // diff, ---, +++
		_, hunks, _ = bytes.Cut(hunks, []byte{'\n'})
	}
	was, is := newOutline(from.Text), newOutline(to.Text)
	for len(hunks) > 0 {
		var text []byte
		text, hunks, _ = bytes.Cut(hunks, []byte{'\n'})
		switch text[0] {
		case '@':
			path := firstPath(text, hunks, was, is)
			if path != "" {
				path = string(terminal.AppendLines([]byte{' '}, []byte(path)))
			}
			line(cyan, nil, text, path)
		case '-':
			line(red, text[:1], text[1:], "")
		case '+':
			line(green, text[:1], text[1:], "")
		default:
			line("", text[:1], text[1:], "")
		}
	}
	return dst
}

// firstPath returns the path of what the first change of a hunk is in.
func firstPath(header, lines []byte, was, is *outline) string {
	var from, fromCount, to, toCount int
	if _, err := fmt.Sscanf(string(header), "@@ -%d,%d +%d,%d @@", &from, &fromCount, &to, &toCount); err != nil {
		return ""
	}
	same := 0
	for ; len(lines) > 0 && lines[0] == ' '; same++ {
		_, lines, _ = bytes.Cut(lines, []byte{'\n'})
	}
	if len(lines) > 0 && lines[0] == '-' {
		return was.path(from - 1 + same)
	}
	return is.path(to - 1 + same)
}
