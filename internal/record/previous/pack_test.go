package previous

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/klauspost/compress/s2"

	"kubejournal/internal/format/object"
	"kubejournal/test/eventtest"
)

func mustUnpack(t testing.TB, p *Packer, packed, want []byte) {
	t.Helper()
	const before = "before"
	got, err := p.Unpack([]byte(before), packed, len(want))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != before+string(want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
}

func TestPack(t *testing.T) {
	bases := [][]byte{nil, []byte("{}"), eventtest.Pod(2000, 1), bytes.Repeat(eventtest.Pod(6000, 3), 10)}
	objects := [][]byte{
		{}, []byte("{}"), []byte("abcdefgh"), bytes.Repeat([]byte("a"), 1000), bytes.Repeat([]byte("abcdefg"), 100),
		eventtest.Pod(2000, 1), eventtest.Pod(2000, 2), eventtest.Pod(60000, 3), eventtest.Event(1), eventtest.Secret(1),
		eventtest.ConfigMap(3<<20, 1), bytes.Repeat(eventtest.Pod(6000, 3), 6),
	}
	for i, base := range bases {
		p, again := NewPacker(base), NewPacker(bytes.Clone(base))
		for j, o := range objects {
			packed := p.Pack([]byte("x"), o)[1:]
			if !bytes.Equal(p.Pack(nil, o), packed) {
				t.Errorf("base %d, object %d: packed otherwise", i, j)
			}
			if len(packed) > s2.MaxEncodedLen(len(o))+5 {
				t.Errorf("base %d, object %d: %d bytes packed into %d", i, j, len(o), len(packed))
			}
			mustUnpack(t, p, packed, o)
			mustUnpack(t, again, packed, o)
			if _, err := p.Unpack(nil, packed, len(o)-1); len(o) > 0 && !errors.Is(err, object.ErrTooLarge) {
				t.Errorf("base %d, object %d: limit passed: %v", i, j, err)
			}
			for n := range min(len(packed), 1<<22/(len(o)+1), 300) { // a part is never the whole
				got, err := p.Unpack([]byte("x"), packed[:n], len(o))
				if err == nil && packed[0] != packedRaw || err != nil && string(got) != "x" {
					t.Errorf("base %d, object %d: %d of %d bytes unpacked: %v", i, j, n, len(packed), err)
				}
			}
			if _, err := p.Unpack(nil, append(packed, 0), len(o)+1); err == nil && packed[0] != packedRaw {
				t.Errorf("base %d, object %d: more bytes unpacked", i, j)
			}
		}
	}
	if small := len(NewPacker(eventtest.Pod(6000, 1)).Pack(nil, eventtest.Pod(6000, 2))); small > 1000 {
		t.Errorf("6,000 bytes packed into %d", small)
	}
}

func TestUnpackFaults(t *testing.T) {
	p := NewPacker(eventtest.Pod(2000, 1))
	packed := p.Pack(nil, eventtest.Pod(2000, 2))
	if _, err := NewPacker(eventtest.Pod(2000, 3)).Unpack(nil, packed, 1<<20); !errors.Is(err, errOtherBase) {
		t.Errorf("with another base: %v", err)
	}
	for _, b := range []string{
		"", "\x04", "\x03", "\x03abcd", "\x03\x00\x00\x00\x00", "\x03\x00\x00\x00\x00\x05", "\x03\x00\x00\x00\x00\x05\x10ab",
		"\x01", "\x02", "\x02abc", "\x01\x07\x10a\x01", "\x04\x00\x00\x00\x00\x05", // forms that nobody writes
	} {
		if got, err := p.Unpack([]byte("x"), []byte(b), 1<<20); err == nil || string(got) != "x" {
			t.Errorf("%q: %q, %v", b, got, err)
		}
	}
	short := NewPacker([]byte("short")) // too short to be a dictionary
	if got, err := short.Unpack(nil, binary.LittleEndian.AppendUint32([]byte{packedS2}, short.sum), 1<<20); err == nil {
		t.Errorf("no block: %q", got)
	}
	if got, err := short.Unpack(nil, append(binary.LittleEndian.AppendUint32([]byte{packedS2}, short.sum), 1, 0, 'a'), 1<<20); err == nil {
		t.Errorf("packed with a base that cannot be one: %q", got)
	}
	mustUnpack(t, p, []byte("\x00"), nil)
}

// Each version of real objects comes back, packed with the first of them.
func TestPackHistory(t *testing.T) {
	content, err := os.ReadFile("../../format/changes/testdata/history.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	versions := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	p := NewPacker(versions[0])
	for _, v := range versions {
		mustUnpack(t, p, p.Pack(nil, v), v)
	}
	if len(versions) < 50 {
		t.Errorf("%d versions", len(versions))
	}
}

func FuzzPack(f *testing.F) {
	f.Add([]byte(""), []byte(""))
	f.Add([]byte("abcdefghabcdefgh"), []byte("abcdefghijabcdefghij"))
	f.Add(eventtest.Pod(2000, 1), eventtest.Pod(2000, 2))
	f.Add(eventtest.Event(1), bytes.Repeat([]byte("ab"), 500))
	f.Fuzz(func(t *testing.T, base, object []byte) {
		p := NewPacker(base)
		mustUnpack(t, p, p.Pack(nil, object), object)
	})
}

func FuzzUnpack(f *testing.F) {
	base := eventtest.Event(1)
	p := NewPacker(base)
	for _, o := range [][]byte{{}, []byte("abc"), eventtest.Event(2), bytes.Repeat([]byte("ab"), 500)} {
		f.Add(p.Pack(nil, o))
		f.Add(NewPacker(nil).Pack(nil, o))
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		const limit = 1 << 16
		got, err := p.Unpack([]byte("x"), packed, limit)
		if len(got) > limit+1 || got[0] != 'x' || err != nil && len(got) > 1 {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if err == nil {
			mustUnpack(t, p, p.Pack(nil, got[1:]), got[1:])
		}
	})
}
