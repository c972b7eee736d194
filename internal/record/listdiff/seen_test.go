package listdiff

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"testing"
	"unsafe"
)

// TestSeenSet compares the table with a map, over growing, repeats and
// identities that look alike.
func TestSeenSet(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	if unsafe.Sizeof(seenObject{}) != 24 {
		t.Errorf("one takes %d bytes", unsafe.Sizeof(seenObject{}))
	}
	for seed := range uint64(9) {
		r := rand.New(rand.NewPCG(seed, 1))
		var s seenSet
		want := make(map[identity]version)
		few := 1 + r.Uint64N(20_000)
		for range r.IntN(30_000) {
			var id identity
			switch seed % 3 { // 0: all zero but for a count; 1: the same at the other end; 2: random
			case 0:
				binary.BigEndian.PutUint64(id[8:], r.Uint64N(few))
			case 1:
				binary.LittleEndian.PutUint64(id[:8], r.Uint64N(few))
			default:
				source := rand.NewPCG(r.Uint64N(few), 2)
				binary.BigEndian.PutUint64(id[8:], source.Uint64())
				binary.BigEndian.PutUint64(id[:8], source.Uint64())
			}
			if got := s.get(id); got != want[id] {
				t.Fatalf("seed %d: %x at %d, want %d", seed, id, got, want[id])
			}
			v := version(1 + r.Uint64())
			if v == 0 {
				v = gone
			}
			*s.at(id) = v
			want[id] = v
		}
		count := 0
		for i := range s.parts {
			count += s.parts[i].count
		}
		if count != len(want) {
			t.Errorf("seed %d: %d objects, want %d", seed, count, len(want))
		}
		for id, v := range want {
			if got := s.get(id); got != v {
				t.Fatalf("seed %d: %x at %d, want %d", seed, id, got, v)
			}
		}
		s.release()
	}
}

// What the table takes is bounded: at most 24 bytes by 8/7 by 5/4 per object, and a
// page of each part.
func TestSeenSetIsDense(t *testing.T) {
	var s seenSet
	defer s.release()
	const objects = 50_000
	for i := range objects {
		*s.at(identify(fmt.Sprint("u", i), "", "")) = 1
	}
	slots := 0
	for i := range s.parts {
		slots += len(s.parts[i].slots)
	}
	if slots > objects*8/7*5/4+seenParts*4096/24 {
		t.Errorf("%d slots for %d objects", slots, objects)
	}
}

// What was released is empty, and may be used again.
func TestSeenSetRelease(t *testing.T) {
	var s seenSet
	for round := range 2 {
		for i := range 70_000 {
			id := identify(fmt.Sprint("u", i), "", "")
			if s.get(id) != 0 {
				t.Fatalf("round %d: object %d is there", round, i)
			}
			*s.at(id) = 1
		}
		mapped := 0
		for i := range s.parts {
			if s.parts[i].mapped != nil {
				mapped++
			}
		}
		if mapped != len(s.parts) {
			t.Errorf("%d of %d parts lie outside of the heap", mapped, len(s.parts))
		}
		s.release()
	}
}

func TestIdentify(t *testing.T) {
	const uid = "0123abcd-4567-89ab-cdef-00112233ffee"
	if identify(uid, "a", "b") != identify([]byte(uid), []byte("a"), []byte("b")) {
		t.Error("bytes and text differ")
	}
	seen := make(map[identity]string)
	for _, text := range []string{
		uid, "0123ABCD-4567-89ab-cdef-00112233ffee", "0123abcd_4567-89ab-cdef-00112233ffee", "0123abcd-4567-89ab-cdef-00112233ffeg",
		"0123abcd-4567-89ab-cdef-00112233ffe", "0123abcd-4567-89ab-cdef-00112233ffee0", "u1", "u2", "0",
		"0123abcd4567-89ab-cdef-00112233ffee--", "\x01\x23\xab\xcd\x45\x67\x89\xab\xcd\xef\x00\x11\x22\x33\xff\xee",
	} {
		for _, name := range []string{"a", "b"} {
			id := identify(text, "", name)
			if other, ok := seen[id]; ok {
				t.Errorf("one identity for %q and %q/%s", other, text, name)
			}
			seen[id] = text + "/" + name
		}
	}
}

func TestParseVersion(t *testing.T) {
	seen := make(map[version]string)
	for _, text := range []string{
		"", "0", "1", "9", "10", "00", "01", "+1", "-1", "1.0", "abc", "999999999999999999", "1000000000000000000",
		"9223372036854775807", "9223372036854775808", "18446744073709551615",
	} {
		v := parseVersion([]byte(text))
		if v == 0 || v == gone {
			t.Errorf("%q is %d", text, v)
		}
		if other, ok := seen[v]; ok {
			t.Errorf("one version for %q and %q", other, text)
		}
		seen[v] = text
	}
	for _, c := range []struct {
		v, w string
		want bool
	}{
		{"9", "10", true}, {"10", "9", false}, {"9", "9", false}, {"9", "abc", false}, {"abc", "9", false}, {"abc", "abd", false}, {"abd", "abc", false},
		{"999999999999999998", "999999999999999999", true},
	} {
		if got := parseVersion([]byte(c.v)).before(parseVersion([]byte(c.w))); got != c.want {
			t.Errorf("%s before %s: %v", c.v, c.w, got)
		}
	}
}

// BenchmarkDiff is what the list's memory of itself costs per object: a list of a
// million objects that it shows for the first time, beside the map in its place, and
// one as one would take at first. resident-B/object is by how much the process has
// grown, garbage included.
func BenchmarkDiff(b *testing.B) {
	const objects = 1_000_000
	uids := make([][]byte, objects)
	for i := range uids {
		uids[i] = fmt.Appendf(nil, "%08x-1111-4222-8333-%012x", i*2654435761&0xffffffff, i)
	}
	run := func(name string, list func(uid []byte), end func()) {
		b.Run("known=none/objects=1000000/way="+name, func(b *testing.B) {
			debug.FreeOSMemory()
			before, most := resident(b), 0
			b.ReportAllocs()
			i := 0
			for ; b.Loop(); i++ {
				if i > 0 && i%objects == 0 {
					most = max(most, resident(b)-before)
					end()
				}
				list(uids[i%objects])
			}
			if most > 0 {
				b.ReportMetric(float64(most)/objects, "resident-B/object")
			}
			end()
		})
	}
	var s seenSet
	run("kubejournal", func(uid []byte) {
		if shown := s.at(identify(uid, nil, nil)); *shown == 0 {
			*shown = 1
		}
	}, s.release)
	m := make(map[identity]version)
	run("map", func(uid []byte) {
		if id := identify(uid, nil, nil); m[id] == 0 {
			m[id] = 1
		}
	}, func() { m = make(map[identity]version) })
	plain := make(map[string]string)
	run("plain", func(uid []byte) {
		if plain[string(uid)] == "" {
			plain[string(uid)] = "1000"
		}
	}, func() { plain = make(map[string]string) })
}

// resident is the memory of the process, in bytes.
func resident(b *testing.B) int {
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0 // no Linux
	}
	var size, pages int
	if _, err := fmt.Sscan(string(content), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize()
}
