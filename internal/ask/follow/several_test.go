package follow

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// of is a line of a stream.
func of(stream, typ string, seq, term int, more string) string {
	return fmt.Sprintf(`{"seq":%d,"term":%d,"time":"2026-11-20T14:00:%02dZ","type":"%s","stream":"%s"%s}`+"\n", seq, term, term*10+seq, typ, stream, more)
}

func put(seq, term int, name, version string) string {
	return of("pods", "ADDED", seq, term, fmt.Sprintf(`,"origin":"watch","id":"%[1]s/%[2]s/ADDED","resource":"pods","name":"%[1]s","uid":"%[1]s","resourceVersion":"%[2]s"`, name, version))
}

func listed(stream, cluster string) string {
	return of(stream, "SYNCED", 1, 1, fmt.Sprintf(`,"id":"%s/5/SYNCED","clusterUID":"%s","resourceVersion":"5"`, stream, cluster))
}

func deleted(seq, term int, name, version string) string {
	return strings.ReplaceAll(put(seq, term, name, version), "ADDED", "DELETED")
}

// What came before is left out, but not after a GAP that says that the server's versions, and so ids, began again; nor after its
// SYNCED, since what is deleted between them has a version from before.
func TestFiles(t *testing.T) {
	for _, reason := range []string{"PositionAheadOfServer", "PositionRefused"} {
		t.Run(reason, func(t *testing.T) { showsFiles(t, reason) })
	}
}

func showsFiles(t *testing.T, reason string) {
	t.Helper()
	ofA := put(1, 1, "x", "7") + put(2, 1, "y", "8")
	ofB := put(1, 2, "y", "8") + of("pods", "GAP", 2, 2, `,"id":"pods/6/GAP","reason":"`+reason+`","resourceVersion":"6"`) + put(3, 2, "x", "7") +
		deleted(4, 2, "y", "8") + of("pods", "SYNCED", 5, 2, `,"id":"pods/6/SYNCED","resourceVersion":"6"`) + deleted(6, 2, "y", "8")
	for there := range 3 { // of the two journals, before they are followed
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.jsonl")
		contents := []string{ofA, ofB}
		for n, path := range []string{a, b} {
			write(t, path, "")
			if n < there {
				write(t, path, contents[n])
			}
		}
		f := followAll(t, []string{a, b}, Options{Lines: All})
		if there > 0 {
			f.until(t, 2)
		}
		for n, path := range []string{a, b} {
			if n >= there {
				appendTo(t, path, contents[n])
				f.until(t, 2)
			}
		}
		f.until(t, 7)
		f.stop(t)
		text, _ := f.state()
		var got []string
		for l := range strings.Lines(text) {
			_, id, _ := strings.Cut(l, `"id":"`)
			id, _, _ = strings.Cut(id, `"`)
			got = append(got, id)
		}
		if want := "[x/7/ADDED y/8/ADDED pods/6/GAP x/7/ADDED y/8/DELETED pods/6/SYNCED y/8/DELETED]"; fmt.Sprint(got) != want {
			t.Errorf("%d journals there: %v, want %s", there, got, want)
		}
		if got := f.seqs(t); !slices.Equal(got, count(1, 7)) {
			t.Errorf("%d journals there: seqs %v", there, got)
		}
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Journals that do not belong together, and what is no journal, are refused and not mixed.
func TestFilesThatDoNotBelongTogether(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write(t, file("a.jsonl"), listed("pods", "c"))
	write(t, file("copy.jsonl"), listed("pods", "c"))
	write(t, file("other.jsonl"), listed("nodes", "d"))
	if err := syscall.Mkfifo(file("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"copy.jsonl":  " both have lines of stream pods in term 1: they are not journals of replicas with one Lease; query one at a time",
		"other.jsonl": " are journals of different clusters; query one at a time",
		"fifo":        "open journal " + file("fifo") + ": not a regular file; a stream of lines can only be shown alone",
		"":            "open journal " + dir + ": is a directory; name the file in it",
		"none.jsonl":  "open journal " + file("none.jsonl") + ": no such file",
	} {
		err := Files(context.Background(), []string{file("a.jsonl"), file(name)}, Options{Lines: All}, NewPrinter(newSink(), Style{}))
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
