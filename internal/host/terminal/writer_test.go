package terminal

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// isRaw reports whether a terminal would act on text, by a list of its own.
func isRaw(text []byte) bool {
	if !utf8.Valid(text) {
		return true
	}
	return bytes.ContainsFunc(text, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || 0x7f <= r && r <= 0x9f || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 ||
			r == 0x200e || r == 0x200f || r == 0x061c || r == 0x2028 || r == 0x2029 || r == 0xfeff
	})
}

func TestWriter(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext, größe 日本\n":           "plain\ttext, größe 日本\n",
		"\x1b[2J\a\b\r\x00":                 `\x1b[2J\a\b\r\x00`,
		"\x1b]8;;http://x\x1b\\":            `\x1b]8;;http://x\x1b\`,
		"a\u009bb\u202ec\u2066\u2028\u2029": `a\u009bb\u202ec\u2066\u2028\u2029`,
		"\x9b\xff�":                         `\x9b\xff�`,
		"\x1b[31mred":                       `\x1b[31mred`,
		"\xe6\x97":                          `\xe6\x97`,
	} {
		for at := range len(text) + 1 { // in two parts
			var out bytes.Buffer
			w := NewWriter(NewWriter(&out, true), false)
			for _, part := range []string{text[:at], text[at:]} {
				if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
			if err := w.Close(); err != nil || out.String() != want {
				t.Errorf("%q in parts at %d: %q, want %q (%v)", text, at, out.String(), want, err)
			}
		}
	}
}

// Colours remain, whole and in parts, and nothing else that begins like one.
func TestWriterColours(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[31mred\x1b[0;1m \x1b[m\x1b[0K": "\x1b[31mred\x1b[0;1m \x1b[m\x1b[0K",
		"\x1b[2J\x1b[":                       `\x1b[2J\x1b[`,
		"\x1b[" + strings.Repeat("1", 30):    `\x1b[` + strings.Repeat("1", 30),
		"\x1b\x1b[1m":                        "\\x1b\x1b[1m",
	} {
		for at := range len(text) + 1 {
			var out bytes.Buffer
			w := NewWriter(&out, true)
			_, _ = w.Write([]byte(text[:at]))
			_, _ = w.Write([]byte(text[at:]))
			if err := w.Close(); err != nil || out.String() != want {
				t.Errorf("%q in parts at %d: %q, want %q (%v)", text, at, out.String(), want, err)
			}
		}
	}
}

// Raw looks into a writer around a Writer, as an answer's output is: JSON and colours pass it as they are.
func TestRaw(t *testing.T) {
	var out bytes.Buffer
	around := struct{ *Writer }{NewWriter(&out, false)}
	if Raw(around) != Raw(around.Writer) || Raw(around) != io.Writer(&out) || Raw(&out) != io.Writer(&out) {
		t.Error("it is not what the Writer writes to")
	}
	_, _ = NewWriter(around, true).Write([]byte("\x1b[1mbold\x1b[m\x1b[2J"))
	if want := "\x1b[1mbold\x1b[m" + `\x1b[2J`; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"": "''", "web-1": "web-1", "ldap:CN=A,OU=x": "ldap:CN=A,OU=x", "a b": "'a b'", "-n": "'-n'", "~": "'~'", "$(id)": "'$(id)'",
		"it's": `'it'"'"'s'`, `a\b`: `'a'"\\"'b'`, "a\nb": `'a'"\\"'nb'`, "größe": "größe", "=ls": "'=ls'", "a*": "'a*'",
	} {
		if got := ShellWord(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzWriter writes text in two parts: nothing that a terminal acts on, lines stay lines, and what is printable is unchanged.
func FuzzWriter(f *testing.F) {
	for _, text := range []string{"a\nb\tc", "\x1b[2J", "\u009b\u202e", "\xff\xe6\x97", "\x1b]52;c;eA==\a", "日本\U000e0001", "\x1b[31m"} {
		f.Add([]byte(text), 1, false)
		f.Add([]byte(text), 2, true)
	}
	f.Fuzz(func(t *testing.T, text []byte, at int, colours bool) {
		at = min(max(at, 0), len(text))
		var parts, whole bytes.Buffer
		w := NewWriter(&parts, colours)
		_, _ = w.Write(text[:at])
		_, _ = w.Write(text[at:])
		_ = w.Close()
		w = NewWriter(&whole, colours)
		_, _ = w.Write(text)
		_ = w.Close()
		if parts.String() != whole.String() {
			t.Fatalf("%q in parts at %d: %q, whole: %q", text, at, parts.Bytes(), whole.Bytes())
		}
		got := whole.Bytes()
		if colours {
			for i := bytes.IndexByte(got, '\x1b'); i >= 0; i = bytes.IndexByte(got, '\x1b') {
				n := bytes.IndexAny(got[i:], "mK")
				if n < 2 || got[i+1] != '[' || len(bytes.Trim(got[i+2:i+n], "0123456789;")) > 0 {
					t.Fatalf("%q: %q", text, got)
				}
				got = append(bytes.Clone(got[:i]), got[i+n+1:]...)
			}
		}
		if isRaw(got) {
			t.Fatalf("%q: %q", text, got)
		}
		if bytes.Count(got, []byte("\n")) != bytes.Count(text, []byte("\n")) {
			t.Fatalf("%q: %q has other lines", text, got)
		}
		if again := AppendLines(nil, got); !bytes.Equal(again, got) {
			t.Fatalf("%q: %q changes again to %q", text, got, again)
		}
		if l := AppendRaw(nil, text); isRaw(l) || bytes.ContainsAny(l, "\n\t") {
			t.Fatalf("%q: %q is no line", text, l)
		}
	})
}

// shellWords splits a line into words as POSIX shells do, by a parser of its own. It is false where anything else than a word
// would be read: an expansion, an operator, a pattern, a comment.
func shellWords(line string) (words []string, ok bool) {
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == ' ' || c == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
			continue
		case c == '\'':
			n := strings.IndexByte(line[i+1:], '\'')
			if n < 0 {
				return nil, false
			}
			word.WriteString(line[i+1 : i+1+n])
			i += n + 1
		case c == '"':
			for i++; ; i++ {
				if i >= len(line) || strings.IndexByte("$`!", line[i]) >= 0 {
					return nil, false
				}
				if line[i] == '"' {
					break
				}
				if line[i] == '\\' {
					if i++; i >= len(line) || line[i] != '\\' {
						return nil, false
					}
				}
				word.WriteByte(line[i])
			}
		case strings.IndexByte("$`\\!&|;<>(){}[]*?#\n\r^", c) >= 0, !inWord && strings.IndexByte("~=-%@", c) >= 0:
			return nil, false
		default:
			word.WriteByte(c)
		}
		inWord = true
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, true
}

// FuzzShellWord reads words as a second parser has them, and now and then as bash does.
func FuzzShellWord(f *testing.F) {
	for _, text := range []string{"", "web", "a b", "$(id)", "`id`", "it's", `\`, "a\nb", "-n", "~", "!!", "\x1b[2J", "#x", "=ls", `"`, "{a,b}"} {
		f.Add(text)
	}
	bash, _ := exec.LookPath("bash")
	runs := 0
	f.Fuzz(func(t *testing.T, text string) {
		word := ShellWord(text)
		if isRaw([]byte(word)) || strings.ContainsAny(word, "\n\t") {
			t.Fatalf("%q: %q is not printable", text, word)
		}
		if words, ok := shellWords("x " + word + " y"); !ok || len(words) != 3 || words[1] != Line(text) {
			t.Fatalf("%q: %q is read as %q", text, word, words)
		}
		if IsShellWord(text) && word != text {
			t.Fatalf("%q is no word", text)
		}
		if runs++; bash == "" || runs%64 != 1 || len(word) > 1000 {
			return
		}
		got, err := exec.Command(bash, "-c", "printf %s "+word).CombinedOutput() //nolint:gosec // which is what is tested
		if err != nil || string(got) != Line(text) {
			t.Fatalf("%q: bash reads %s as %q: %v", text, word, got, err)
		}
	})
}
