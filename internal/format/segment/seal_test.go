package segment

import (
	"strings"
	"testing"
)

// The last line is found however its bytes come.
func TestLastLine(t *testing.T) {
	text := `{"seq":1}` + "\n" + `{"seq":22,"a":"` + strings.Repeat("x", 100) + `"}` + "\n" + `{"seq":333}` + "\n"
	for size := 1; size <= len(text); size++ {
		var l lastLine
		for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
			if n, err := l.Write([]byte(rest[:min(size, len(rest))])); err != nil || n != min(size, len(rest)) {
				t.Fatal(n, err)
			}
		}
		if seq, ok := SeqOf(l.head); !ok || seq != 333 {
			t.Errorf("pieces of %d bytes: %q", size, l.head)
		}
	}
}
