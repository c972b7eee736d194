package rawjson

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"kubejournal/test/eventtest"
)

// naiveIndex is build byte by byte.
func naiveIndex(b []byte) index {
	x := index{marks: make([]marks, len(b)/blockSize+1)}
	for i, c := range b {
		m, bit := &x.marks[i/blockSize], uint64(1)<<(i%blockSize)
		switch {
		case c == '"' && !escapedAt(b, i):
			m.quote |= bit
		case c == '\\':
			m.slash |= bit
		case c == '{' || c == '[':
			m.open |= bit
		case c == '}' || c == ']':
			m.shut |= bit
		}
		x.control = x.control || c < ' '
		x.wide = x.wide || c > 0x7f
	}
	return x
}

// naiveEnd is closes byte by byte.
func naiveEnd(b []byte, i int) int {
	depth, in := 0, false
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"' && !escapedAt(b, i):
			in = !in
		case in:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

func checkIndex(t *testing.T, x *index, b []byte) {
	t.Helper()
	x.build(b)
	want := naiveIndex(b)
	if x.control != want.control || x.wide != want.wide || len(x.marks) != len(want.marks) {
		t.Fatalf("%q: control %v, wide %v, %d blocks", b, x.control, x.wide, len(x.marks))
	}
	for i, m := range x.marks {
		if m != want.marks[i] {
			t.Fatalf("%q: block %d: %+v, want %+v", b, i, m, want.marks[i])
		}
	}
	plain := make([]marks, len(b)/blockSize)
	wide := make([]marks, len(plain))
	c1, w1 := findPlain(b, plain)
	c2, w2 := findMarks(b, wide)
	if c1 != c2 || w1 != w2 {
		t.Fatalf("%q: control %v %v, wide %v %v", b, c1, c2, w1, w2)
	}
	for i := range plain {
		if plain[i] != wide[i] {
			t.Fatalf("%q: block %d: %+v and %+v", b, i, plain[i], wide[i])
		}
	}
	for i, c := range b {
		if c == '"' && !escapedAt(b, i) {
			end := i + 1
			for ; end < len(b) && (b[end] != '"' || escapedAt(b, end)); end++ {
			}
			s, want := Scanner{b: b, x: x}, end+1
			escaped := bytes.IndexByte(b[i+1:end], '\\') >= 0
			if end == len(b) || badEscape(b[i+1:end]) >= 0 {
				want = -1
			}
			if got := s.long(i + 1); got != want {
				t.Fatalf("%q: string at %d ends before %d, want %d", b, i, got, want)
			}
			if got := x.short(i + 1); got > 0 && (got != want || escaped) {
				t.Fatalf("%q: short string at %d ends before %d", b, i, got)
			}
		}
		if c == '{' || c == '[' {
			if got, want := x.closes(i), naiveEnd(b, i); got != want {
				t.Fatalf("%q: %d closes at %d, want %d", b, i, got, want)
			}
		}
	}
}

func TestIndex(t *testing.T) {
	var x index
	rnd := rand.New(rand.NewPCG(3, 4))
	const alphabet = `"\{}[]:,a|[{"\\` + "\x00\x1f \xff\xfb\xfd\xa2\xdc\x7f\x02\x5f"
	for range 1500 {
		b := make([]byte, rnd.IntN(300))
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		checkIndex(t, &x, b)
	}
	checkIndex(t, &x, eventtest.Pod(6000, 1))
	for n := range 3 * blockSize {
		checkIndex(t, &x, bytes.Repeat([]byte{'\\'}, n))
		checkIndex(t, &x, append(bytes.Repeat([]byte{'\\'}, n), '"'))
	}
	// Every byte, and between them every place.
	for c := range 256 {
		for i := c % 8; i < blockSize; i += 8 {
			b := bytes.Repeat([]byte{' '}, blockSize)
			b[i] = byte(c)
			checkIndex(t, &x, b)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"a\"}":[{}]}`))
	f.Add(bytes.Repeat([]byte(`\`), 200))
	f.Add(eventtest.Pod(2000, 1))
	var x index
	f.Fuzz(func(t *testing.T, b []byte) { checkIndex(t, &x, b) })
}

// BenchmarkIndex is the one look at every byte.
func BenchmarkIndex(b *testing.B) {
	pod := eventtest.Pod(6000, 1)
	out := make([]marks, len(pod)/blockSize)
	for _, way := range []struct {
		name string
		find func([]byte, []marks) (bool, bool)
	}{{"wide", findMarks}, {"plain", findPlain}} {
		b.Run("way="+way.name, func(b *testing.B) {
			b.SetBytes(int64(len(pod)))
			for b.Loop() {
				way.find(pod, out)
			}
		})
	}
}
