package journal

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/segment"
	"kubejournal/test/faultdisk"
)

// tenants writes a journal for several namespaces, and knows what was written.
type tenants struct {
	*rig
	random  *rand.Rand
	written []string
	of      []string // whose each of these is: "stream namespace"
}

// line writes a line of a namespace, with so many bytes of text that hardly compresses.
func (w *tenants) line(stream, namespace, name string, pad int) {
	w.t.Helper()
	text := make([]byte, pad)
	for i := range text {
		text[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[w.random.IntN(64)]
	}
	seq := len(w.written) + 1
	place := ""
	if namespace != "" {
		place = fmt.Sprintf(`,"namespace":%q`, namespace)
	}
	l := fmt.Sprintf(`{"seq":%d,"time":%q,"type":"MODIFIED","origin":"watch","id":"%s/%d/MODIFIED","stream":%q,"version":"v1","resource":%q,"kind":"Any"%s,"name":%q,"uid":%q,"resourceVersion":"%d","object":{"a":%q}}`+"\n",
		seq, time.Now().UTC().Format(time.RFC3339Nano), name, seq, stream, stream, place, name, name, seq, text)
	w.written, w.of = append(w.written, l), append(w.of, stream+" "+namespace)
	for p := []byte(l); len(p) > 0; {
		n, err := w.j.Write(p)
		if errors.Is(err, faultdisk.ErrKilled) {
			break
		}
		if err != nil {
			w.t.Fatal(err)
		}
		p = p[n:]
	}
	w.next++
}

// settle commits what was written, and waits for the tidier.
func (w *tenants) settle() {
	w.t.Helper()
	w.commitAll()
	w.wait(time.Second)
}

// removal is a REMOVED line, as docs/line.md has it.
type removal struct {
	Seq                               int
	Type, ID, Stream, Namespace, Time string
	Reason                            string
	Removed                           struct {
		FromSeq, ToSeq, Lines int
		FromTime, ToTime      time.Time
	}
}

var compactedForm = regexp.MustCompile(`^(journal-.*\.jsonl)\.compacted-(\d+)\.gz$`)

// check reads the files as docs/operations.md says, and compares them with what was written: each line is there as it was
// written, or a REMOVED line stands for it that names its stream and namespace. It returns how many lines are gone of each
// share, and the seq of the first that is there.
func (w *tenants) check() (gone map[string]int, first int) {
	w.t.Helper()
	dir := filepath.Dir(w.path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	contents, begins := make(map[string]string), make(map[string]int)
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, "journal") || strings.HasSuffix(name, ".index") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.HasSuffix(name, ".gz") {
			z, err := gzip.NewReader(bytes.NewReader(content))
			if err == nil {
				content, err = io.ReadAll(z)
			}
			if err != nil {
				w.t.Fatalf("%s: %v", name, err)
			}
		}
		if len(content) > 0 {
			contents[name] = string(content)
			if _, err := fmt.Sscanf(string(content), `{"seq":%d,`, &first); err != nil {
				w.t.Fatalf("%s begins with %.60q", name, content)
			}
			begins[name] = first
		}
	}
	// The files that a compacted one replaces are not read.
	for name := range contents {
		if parts := compactedForm.FindStringSubmatch(name); parts != nil {
			upTo, err := strconv.Atoi(parts[2])
			if err != nil {
				w.t.Fatal(err)
			}
			for other := range contents {
				is := compactedForm.FindStringSubmatch(other)
				later := len(is) == 3 && is[1] == parts[1] && len(is[2]) >= len(parts[2]) && is[2] > parts[2]
				if other != name && begins[name] <= begins[other] && begins[other] <= upTo && !later {
					delete(contents, other)
				}
			}
		} else if contents[strings.TrimSuffix(name, ".gz")] != "" && strings.HasSuffix(name, ".gz") {
			delete(contents, name)
		}
	}
	names := make([]string, 0, len(contents))
	for name := range contents {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return begins[a] - begins[b] })
	gone, next := make(map[string]int), 0
	first = 0
	for _, name := range names {
		for l := range strings.Lines(contents[name]) {
			var is removal
			if err := json.Unmarshal([]byte(l), &is); err != nil {
				w.t.Fatalf("%s: %v: %s", name, err, l)
			}
			if next == 0 {
				first, next = is.Seq, is.Seq
			}
			if is.Seq != next {
				w.t.Fatalf("%s goes on with line %d, want %d", name, is.Seq, next)
			}
			if is.Type != "REMOVED" {
				if next++; next-1 > len(w.written) || l != w.written[is.Seq-1] {
					w.t.Fatalf("%s, line %d is not as it was written: %.200s", name, is.Seq, l)
				}
				continue
			}
			if is.Removed.FromSeq != is.Seq || is.Removed.Lines != is.Removed.ToSeq-is.Seq+1 || is.ID == "" || is.Reason == "" ||
				is.Removed.ToTime.Before(is.Removed.FromTime) || is.Removed.FromTime.IsZero() {
				w.t.Fatalf("%s: %s", name, l)
			}
			for ; next <= is.Removed.ToSeq; next++ {
				if of := w.of[next-1]; of != is.Stream+" "+is.Namespace {
					w.t.Fatalf("%s: line %d, of %s, counts as one of %s %s", name, next, of, is.Stream, is.Namespace)
				}
				gone[w.of[next-1]]++
			}
		}
	}
	if next != len(w.written)+1 {
		w.t.Fatalf("the last line is %d of %d", next-1, len(w.written))
	}
	w.checkEach()
	return gone, first
}

// checkEach compares each index with one that is made now.
func (w *tenants) checkEach() {
	w.t.Helper()
	all, err := segment.List(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range all {
		if s.Active {
			continue
		}
		is, in, err := s.OpenIndex()
		if err != nil {
			w.t.Errorf("%s: %v", s.Path, err)
			continue
		}
		made, err := s.MakeIndex(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if same, err := index.Equal(is, made, false); !same || err != nil {
			w.t.Errorf("the index of %s is not what is made of it: %v", s.Path, err)
		}
		_ = in.Close()
	}
}

func ofTenants(t *testing.T, o Options, test func(*tenants)) {
	t.Helper()
	inBubble(t, o, func(r *rig) {
		test(&tenants{rig: r, random: rand.New(rand.NewPCG(1, 2))})
	})
}

// One namespace writes far more than the journal may have: nothing of another namespace is lost, and of its own
// namespace nothing of another kind, as long as that is younger than MinAge.
func TestTenantsDay(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for name, o := range map[string]Options{
		"bytes": {MaxSize: 32 << 10, MaxTotalSize: 300 << 10},
		"files": {MaxSize: 32 << 10, MaxFiles: 8},
	} {
		o.Compress, o.MinAge, o.MaxAge = true, 24*time.Hour, 7*24*time.Hour
		t.Run(name, func(t *testing.T) {
			ofTenants(t, o, func(w *tenants) {
				for minute := range 24 {
					w.line("deployments.apps", "shop", "web", 300)
					w.line("nodes", "", "node-1", 300)
					w.line("rolebindings.rbac.authorization.k8s.io", "evil", "grant", 300)
					for n := range 60 {
						switch minute % 3 {
						case 0: // large
							w.line("configmaps", "evil", "large", 5_000)
						case 1: // many, with long names
							w.line("configmaps", "evil", strings.Repeat("n", 240)+strconv.Itoa(n), 700)
						default: // of another kind
							w.line("widgets.example.com", "evil", "widget-"+strconv.Itoa(n), 3000)
						}
					}
					w.settle()
					w.wait(time.Minute)
				}
				if most := int64(300 << 10); w.totalSize() > most {
					t.Errorf("%d bytes, want at most %d", w.totalSize(), most)
				}
				gone, first := w.check()
				if first != 1 || len(gone) == 0 {
					t.Errorf("the journal begins with line %d; gone are %v", first, gone)
				}
				for of := range gone {
					if of != "configmaps evil" && of != "widgets.example.com evil" {
						t.Errorf("%d lines of %s are gone", gone[of], of)
					}
				}
				entries, err := os.ReadDir(filepath.Dir(w.path))
				if err != nil || len(entries) > 60 {
					t.Errorf("%d files, %v", len(entries), err)
				}
				// Behind the minimum age the oldest files go first.
				w.wait(48 * time.Hour)
				for range 40 {
					w.line("pods", "shop", "web", 10_000)
				}
				w.settle()
				if _, first := w.check(); first == 1 {
					t.Error("nothing that is older than the minimum age was removed")
				}
			})
		})
	}
}

// Where no namespace is larger than the others and space is short, the oldest lines go.
func TestCompactFair(t *testing.T) {
	o := Options{MaxSize: 32 << 10, MaxTotalSize: 300 << 10, Compress: true, MinAge: time.Hour}
	ofTenants(t, o, func(w *tenants) {
		for range 100 {
			for n := range 10 {
				w.line("configmaps", fmt.Sprintf("tenant-%d", n), "a", 1000)
			}
			w.settle()
		}
		if w.totalSize() > o.MaxTotalSize {
			t.Errorf("%d bytes", w.totalSize())
		}
		gone, _ := w.check()
		for n := range 9 {
			a, b := gone[fmt.Sprintf("configmaps tenant-%d", n)], gone["configmaps tenant-9"]
			if a < b-60 || b < a-60 {
				t.Errorf("lines that are gone: %v", gone)
				break
			}
		}
	})
}

var crashAll = flag.Bool("crash.all", false, "TestCompactCrash fails each operation of the disk, not some of them")

// Killed at every operation, and with a power cut: no line is there twice or missing without a REMOVED line, and the next
// start tidies up.
func TestCompactCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	o := Options{MaxSize: 8 << 10, MaxTotalSize: 48 << 10, Compress: true, MinAge: time.Hour}
	step := func(n int) int { return 1 + n/3 }
	if *crashAll {
		step = func(int) int { return 1 }
	}
	runs := 0
	for _, fault := range faultdisk.Faults {
		for _, cut := range []bool{false, true} {
			if cut && !fault.Kills() {
				continue
			}
			for n := 1; ; n += step(n) {
				struck := compactOnce(t, o, fault, n, cut)
				if runs++; !struck {
					break
				}
			}
		}
	}
	t.Logf("%d runs", runs)
}

func compactOnce(t *testing.T, o Options, fault faultdisk.Fault, n int, cut bool) (struck bool) {
	t.Helper()
	count, armed := 0, false
	d := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
		if armed && !strings.HasSuffix(op.Path, "journal.jsonl") && (op.Kind == faultdisk.Write || fault != faultdisk.Half && fault != faultdisk.KillHalf) {
			count++
		}
		if !armed || struck || count != n {
			return faultdisk.None
		}
		struck = true
		return fault
	})
	good := o
	o.Disk = d
	ofTenants(t, o, func(w *tenants) {
		defer func() {
			if t.Failed() {
				t.Logf("%s at operation %d, power cut: %t", fault, n, cut)
			}
		}()
		for range 5 {
			w.line("pods", "shop", "web", 200)
			for range 20 {
				w.line("configmaps", "evil", "a", 700)
			}
		}
		w.settle()
		armed = true
		for range 3 { // the writing of lines is not what fails here
			w.line("pods", "shop", "web", 200)
			for range 8 {
				w.line("configmaps", "evil", "a", 700)
			}
		}
		if err := w.commit(w.j, w.next-1); err != nil && !errors.Is(err, faultdisk.ErrKilled) {
			t.Fatal(err)
		}
		w.wait(3 * tidyRetry)
		d.Kill()
		_ = w.j.Close()
		if cut {
			if err := d.PowerCut(filepath.Dir(w.path), false); err != nil {
				t.Fatal(err)
			}
		}
		w.options = good
		w.open()
		last := uint64(0)
		if _, err := w.j.ReadBack(w.mark, w.seq, true, func(_ []byte, n uint64) error { last = n; return nil }); err != nil {
			t.Fatal(err)
		}
		keep := max(last, w.seq)
		w.written, w.of, w.next = w.written[:keep], w.of[:keep], keep+1
		w.settle()
		w.line("pods", "shop", "web", 200)
		w.settle()
		w.wait(2 * tidyEvery)
		if gone, first := w.check(); first != 1 || gone["pods shop"] > 0 {
			t.Errorf("the journal begins with line %d; gone are %v", first, gone)
		}
		if names := w.names(); strings.Contains(names, ".tmp") {
			t.Errorf("files left over: %s", names)
		}
	})
	return struck
}

// A compacted file that was compacted again has the same name: it is not read as the one that was listed.
func TestCompactedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	write := func(name, text string) {
		t.Helper()
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := io.WriteString(z, text)
		if err = errors.Join(err, z.Close()); err == nil {
			err = os.WriteFile(filepath.Join(filepath.Dir(path), name), b.Bytes(), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const name = "journal-2026-11-20T16-10-22.123.jsonl.compacted-3.gz"
	const head = `{"seq":1,"time":"2026-11-20T16:10:22Z","type":`
	write(name, head+"\"ADDED\"}\n"+`{"seq":2,"type":"ADDED"}`+"\n"+`{"seq":3,"type":"ADDED"}`+"\n")
	all, err := segment.List(path)
	if err != nil || len(all) != 1 || all[0].UpTo != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	var r segment.Reader
	defer r.Close()
	if err := r.Open(all[0], 0); err != nil {
		t.Fatal(err)
	}
	write(name, head+`"REMOVED","removed":{"fromSeq":1,"toSeq":3}}`+"\n")
	if err := r.Open(all[0], 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open = %v, want that the file is gone", err)
	}
}
