package apidocs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/host/disk"
	"kubejournal/test/faultdisk"
)

// at is a time of the tests, in seconds.
func at(seconds int) time.Time { return time.Unix(1_900_000_000+int64(seconds), 0).UTC() }

// text is a document: many members, of which that of number changed has another value.
func text(members, changed int) []byte {
	var b bytes.Buffer
	random := rand.New(rand.NewPCG(1, 1))
	for n := range members {
		value := random.Uint64()
		if n == changed {
			value++
		}
		fmt.Fprintf(&b, "\"io.example.v1.Kind%d\": {\"type\": \"object\", \"description\": \"%x\"},\n", n, value)
	}
	return b.Bytes()
}

// file is a file that a test writes, and what is in it.
type file struct {
	t    *testing.T
	path string // of the journal
	w    *Writer
	docs map[Sum][]byte
}

func newFile(t *testing.T) *file {
	f := &file{t: t, path: filepath.Join(t.TempDir(), "journal.jsonl"), docs: make(map[Sum][]byte)}
	f.open(disk.OS)
	return f
}

func (f *file) open(d disk.FS) {
	f.t.Helper()
	var err error
	if f.w, err = OpenWriter(d, f.path); err != nil {
		f.t.Fatal(err)
	}
}

func (f *file) record(seconds int, docs ...[]byte) error {
	var m Manifest
	for n, b := range docs {
		sum, size, err := f.w.Put(bytes.NewReader(b))
		if err != nil {
			return err
		}
		if sum != sha256.Sum256(b) || size != int64(len(b)) {
			f.t.Fatalf("Put returns %x, %d", sum, size)
		}
		f.docs[sum] = b
		m.Documents = append(m.Documents, Document{Path: fmt.Sprint("/", n), Type: "application/json", ETag: fmt.Sprintf(`"%x"`, sum), Size: size, Sum: sum})
	}
	return f.w.Record(m, at(seconds))
}

func (f *file) mustRecord(seconds int, docs ...[]byte) {
	f.t.Helper()
	if err := f.record(seconds, docs...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *file) size() int64 {
	info, err := os.Stat(f.path + ".api")
	if err != nil {
		f.t.Fatal(err)
	}
	return info.Size()
}

// ask returns what the file says of a time.
func (f *file) ask(seconds int) (docs [][]byte, doubt string, err error) {
	d, err := Open(f.path)
	if err != nil {
		return nil, "", err
	}
	defer d.Close()
	return ask(d, seconds)
}

func ask(d *Documents, seconds int) (docs [][]byte, doubt string, err error) {
	m, doubt, err := d.At(at(seconds))
	if err != nil || m == nil {
		return nil, doubt, err
	}
	for _, doc := range m.Documents {
		b, err := m.Read(doc)
		if err != nil {
			return docs, doubt, err
		}
		docs = append(docs, b)
	}
	return docs, doubt, nil
}

// want checks what the file says of a time. doubt is a part of the doubt, "" for none.
func (f *file) want(seconds int, doubt string, docs ...[]byte) {
	f.t.Helper()
	got, gotDoubt, err := f.ask(seconds)
	if err != nil || len(got) != len(docs) || (gotDoubt == "") != (doubt == "") || !strings.Contains(gotDoubt, doubt) {
		f.t.Fatalf("at %d: %d documents, doubt %q, error %v; want %d, %q", seconds, len(got), gotDoubt, err, len(docs), doubt)
	}
	for n := range docs {
		if !bytes.Equal(got[n], docs[n]) {
			f.t.Fatalf("at %d: document %d is another one", seconds, n)
		}
	}
}

func TestAt(t *testing.T) {
	f := newFile(t)
	defer func() { f.w.Close() }()
	a, b, c := text(3000, -1), text(3000, 1500), text(100, -1)
	f.want(10, "no record")
	f.mustRecord(10, a, c)
	f.want(10, "", a, c)
	f.mustRecord(20, a, c)
	before := f.size()
	for seconds := 30; seconds < 600; seconds += 15 {
		f.mustRecord(seconds, a, c)
	}
	f.want(595, "after 2030-03-17T17:56:25Z is not known", a, c) // as of 585
	f.want(585, "", a, c)
	f.mustRecord(600, b, c)
	if grown := f.size() - before; grown > 8<<10 {
		t.Errorf("one member of %d bytes has changed, and the file has grown by %d", len(b), grown)
	}
	f.want(5, "before 2030-03-17T17:46:50Z is not known", a, c)
	f.want(300, "", a, c)
	f.want(590, "something else afterwards", a, c)
	f.want(600, "", b, c)
	f.mustRecord(900, b, c) // nobody has asked for five minutes
	f.want(800, "the same again afterwards", b, c)
	f.w.Close()
	f.open(disk.OS)
	if m := f.w.Last(); len(m.Documents) != 2 || m.Documents[0].Sum != sha256.Sum256(b) {
		t.Errorf("after a restart the last moment has %+v", m)
	}
	before = f.size()
	f.mustRecord(910, b, c)
	if grown := f.size() - before; grown > 128 {
		t.Errorf("a restart has the file grow by %d", grown)
	}
	f.want(905, "the same again afterwards", b, c)
	f.want(910, "", b, c)
	f.mustRecord(920, a)
	f.want(920, "", a)
	if err := f.w.Close(); err != nil {
		t.Error(err)
	}
}

// TestChunks has each document come back as it was, whatever its size.
func TestChunks(t *testing.T) {
	f := newFile(t)
	defer func() { f.w.Close() }()
	random := rand.New(rand.NewPCG(2, 2))
	noise := make([]byte, 400<<10)
	for n := range noise {
		noise[n] = byte(random.Uint32())
	}
	for n, size := range []int{0, 1, leastChunk, mostChunk - 1, mostChunk, mostChunk + 1, 5 * mostChunk, maxPack, len(noise)} {
		f.mustRecord(n, noise[:size], make([]byte, size))
		f.want(n, "", noise[:size], make([]byte, size))
	}
	if _, _, err := f.w.Put(&zeros{MaxDocument + maxPack}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a document that is too large: %v", err)
	}
}

type zeros struct{ left int }

func (z *zeros) Read(p []byte) (int, error) {
	n := min(len(p), z.left)
	clear(p[:n])
	if z.left -= n; z.left == 0 {
		return n, errors.New("a fault at the end")
	}
	return n, nil
}

// TestBrokenOff has a document that breaks off be none.
func TestBrokenOff(t *testing.T) {
	f := newFile(t)
	defer func() { f.w.Close() }()
	if sum, _, err := f.w.Put(&zeros{5000}); err == nil || f.w.c.whole(sum) {
		t.Errorf("stored %x, error %v", sum, err)
	}
	f.mustRecord(1, make([]byte, 5000), text(100, -1))
	f.want(1, "", make([]byte, 5000), text(100, -1))
}

// TestTidy removes what no line of the journal needs, and what is too much.
func TestTidy(t *testing.T) {
	f := newFile(t)
	defer func() { f.w.Close() }()
	var all [][]byte
	for n := range 20 {
		all = append(all, bytes.Repeat(text(1, n)[:40], 100+n))
		f.mustRecord(100*n, all[n], text(500, n))
		f.mustRecord(100*n+50, all[n], text(500, n))
	}
	size := f.size()
	tidy := func(seconds int) {
		t.Helper()
		if err := f.w.Tidy(at(seconds)); err != nil {
			t.Fatal(err)
		}
	}
	tidy(150)
	if f.size() != size {
		t.Error("little is to be freed, and the file was written again")
	}
	tidy(1550)
	if f.size() > size*2/3 {
		t.Errorf("of %d bytes %d are left", size, f.size())
	}
	f.want(1400, "before", all[15], text(500, 15))
	for n := 15; n < 20; n++ {
		f.want(100*n+25, "", all[n], text(500, n))
	}
	f.mustRecord(1960, all[19], text(500, 19))
	f.want(1960, "", all[19], text(500, 19))
	tidy(1_000_000)
	f.want(1960, "", all[19], text(500, 19))
	f.want(1850, "before", all[19], text(500, 19))

	// Room for two of three: the last one stays, and the longer one of the others.
	f = newFile(t)
	defer func() { f.w.Close() }()
	f.mustRecord(0, text(2000, 0))
	f.mustRecord(50, text(2000, 0))
	f.mustRecord(60, text(100, 1), text(2000, 1000), all[3])
	f.mustRecord(70, text(2000, 2))
	size = f.size()
	if err := f.w.replace(f.w.c.spans, size-1000); err != nil {
		t.Fatal(err)
	}
	if now := f.size(); now > size-1000 || now < size/2 {
		t.Errorf("of %d bytes %d are left", size, now)
	}
	f.want(50, "", text(2000, 0))
	f.want(60, "something else afterwards", text(2000, 0))
	f.want(70, "", text(2000, 2))
	f.mustRecord(75, text(2000, 2))
	f.want(75, "", text(2000, 2))
	// Without room, the last one.
	if err := f.w.replace(f.w.c.spans, 0); err != nil {
		t.Fatal(err)
	}
	f.want(50, "before", text(2000, 2))
	f.want(75, "", text(2000, 2))
}

// history is what happens to a file, step by step: each returns what is then recorded of which time.
var history = []func(f *file) error{
	func(f *file) error { return f.record(10, text(80, 0), text(50, 0)) },
	func(f *file) error { return f.record(20, text(80, 0), text(50, 0)) },
	func(f *file) error { return f.record(30, text(80, 40), text(50, 0)) },
	func(f *file) error { return f.record(40, text(80, 40), text(50, 0)) },
	func(f *file) error { return f.record(50, text(80, 40), text(50, 0)) },
	func(f *file) error {
		err := f.w.Close()
		f.w = nil
		return err
	},
	func(f *file) error { return f.w.Tidy(at(45)) },
	func(f *file) error { return f.record(60, text(80, 0), text(60, 0)) },
}

// truth is what was served at each time that is claimed after the history.
func truth(seconds int) [][]byte {
	switch {
	case seconds < 10:
	case seconds <= 20:
		return [][]byte{text(80, 0), text(50, 0)}
	case seconds >= 30 && seconds <= 50:
		return [][]byte{text(80, 40), text(50, 0)}
	case seconds == 60:
		return [][]byte{text(80, 0), text(60, 0)}
	}
	return nil
}

// check has the file claim nothing that is not so. It returns how many times it claims.
func (f *file) check(errorsAllowed bool) (claims int) {
	f.t.Helper()
	d, opened := Open(f.path)
	if opened == nil {
		defer d.Close()
		if d != nil && d.Damaged != nil && !errorsAllowed {
			f.t.Fatal(d.Damaged)
		}
	}
	for seconds := 0; seconds <= 65; seconds += 5 {
		got, doubt, err := [][]byte(nil), "", opened
		if err == nil {
			got, doubt, err = ask(d, seconds)
		}
		if err != nil {
			if !errorsAllowed {
				f.t.Fatalf("at %d: %v", seconds, err)
			}
			if !strings.Contains(err.Error(), f.path+".api") || !strings.Contains(err.Error(), "move it away") && !strings.Contains(err.Error(), "use that version") {
				f.t.Fatalf("at %d: the error names no file or no remedy: %v", seconds, err)
			}
			continue
		}
		if doubt != "" {
			continue
		}
		want := truth(seconds)
		if len(want) == 0 || len(got) != len(want) {
			f.t.Fatalf("at %d: claims %d documents, served were %d", seconds, len(got), len(want))
		}
		for n := range want {
			if !bytes.Equal(got[n], want[n]) {
				f.t.Fatalf("at %d: document %d is another one", seconds, n)
			}
		}
		claims++
	}
	return claims
}

// TestEveryOperation has each operation on the disk fail in turn, in each way, and goes on: nothing is claimed that is
// not so, and what comes later is recorded.
func TestEveryOperation(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	kinds := make(map[faultdisk.Kind]int)
	for _, fault := range faultdisk.Faults {
		for n := 1; ; n++ {
			f := &file{t: t, path: filepath.Join(t.TempDir(), "journal.jsonl"), docs: make(map[Sum][]byte)}
			struck := faultdisk.Op{}
			d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
				if op.N == n {
					struck = op
					return fault
				}
				return faultdisk.None
			})
			on := disk.FS(d)
			for _, step := range history {
				for tries := 0; ; tries++ {
					var err error
					if f.w == nil {
						f.w, err = OpenWriter(on, f.path)
					}
					if err == nil {
						err = step(f)
					}
					if err == nil {
						break
					}
					if tries == 3 || !errors.Is(err, faultdisk.ErrInjected) && !errors.Is(err, faultdisk.ErrKilled) {
						t.Fatalf("%v of operation %d (%v): %v", fault, n, struck, err)
					}
					if f.w != nil {
						f.w.Close()
						f.w = nil
					}
					if fault.Kills() {
						on = disk.OS
					}
					f.check(false)
				}
			}
			f.check(false)
			f.want(50, "", truth(50)...) // whatever has failed since
			f.want(60, "", truth(60)...)
			f.w.Close()
			if struck.N == 0 {
				break
			}
			kinds[struck.Kind]++
		}
	}
	t.Log(kinds)
	for _, kind := range []faultdisk.Kind{faultdisk.Create, faultdisk.Write, faultdisk.Truncate, faultdisk.Sync, faultdisk.Rename, faultdisk.SyncDir} {
		if kinds[kind] == 0 {
			t.Errorf("no fault struck a %s", kind)
		}
	}
}

// TestDamage changes each byte of a file, and cuts it off at each: what is claimed is right, or the error names the file
// and the remedy; and a writer goes on.
func TestDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	f := newFile(t)
	for _, step := range history[:5] {
		if err := step(f); err != nil {
			t.Fatal(err)
		}
	}
	f.w.Close()
	if n := f.check(false); n != 8 {
		t.Fatalf("%d times are claimed", n)
	}
	good, err := os.ReadFile(f.path + ".api")
	if err != nil {
		t.Fatal(err)
	}
	try := func(content []byte, what string, n int) {
		f.t.Helper()
		if err := os.WriteFile(f.path+".api", content, 0o600); err != nil {
			t.Fatal(err)
		}
		f.check(true)
		if n > start && n%5 != 0 {
			return
		}
		w, err := OpenWriter(disk.OS, f.path)
		if err != nil {
			if n < start && (errors.Is(err, ErrForeign) || errors.Is(err, ErrNewer)) {
				return
			}
			t.Fatalf("%s %d: %v", what, n, err)
		}
		f.w = w
		defer w.Close()
		f.mustRecord(60, truth(60)...)
		f.want(60, "", truth(60)...)
	}
	for n := range good {
		padding := n > 30 && n < start && n%512 > slotSize
		inside := n > start+150 && n < len(good)-250 && n%97 != 0 // of chunks, mostly
		if padding && n%100 != 0 || inside {
			continue
		}
		damaged := bytes.Clone(good)
		damaged[n] ^= 0x20
		try(damaged, "changed", n)
		try(good[:n], "cut off", n)
	}
}

// TestTorn has a daemon be killed while it appends, and what it appended be no longer served when it starts again.
func TestTorn(t *testing.T) {
	f := newFile(t)
	f.mustRecord(10, text(80, 0))
	whole := f.size()
	f.mustRecord(20, text(80, 40))
	f.w.Close()
	if torn := whole + 500; os.Truncate(f.path+".api", torn) != nil || f.size() != torn {
		t.Fatalf("it has %d bytes", f.size())
	}
	f.want(15, "after", text(80, 0))
	f.open(disk.OS)
	f.mustRecord(30, text(80, 0))
	f.w.Close()
	f.want(30, "", text(80, 0))
	if d, err := Open(f.path); err != nil || d.Damaged != nil || f.size() > whole+200 {
		t.Errorf("%v, damaged %v, %d bytes", err, d.Damaged, f.size()-whole)
	}
}

// TestHostile opens what nobody has written.
func TestHostile(t *testing.T) {
	f := newFile(t)
	f.mustRecord(10, text(10, 0))
	f.w.Close()
	for name, content := range map[string][]byte{
		"empty": nil, "another": []byte("{}\n"), "zeros": make([]byte, 5000),
	} {
		if err := os.WriteFile(f.path+".api", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(f.path); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), ".api: not a file of API documents that kubejournal has written; move it away") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := OpenWriter(disk.OS, f.path); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: a writer takes it, %v", name, err)
		}
		if is, err := os.ReadFile(f.path + ".api"); err != nil || !bytes.Equal(is, content) {
			t.Errorf("%s: it was changed, %v", name, err)
		}
	}
	if err := os.Remove(f.path + ".api"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(f.path+".api", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(f.path); err == nil {
		t.Error("a folder can be read")
	}
}
