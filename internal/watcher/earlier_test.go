package watcher_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"compress/gzip"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/kubefake"
)

// earlier is the entry that testdata/earlier was written with, and earlierObjects how
// many objects there are: enough for a base to pack them with.
var earlier = demanding("configmaps", func(e *config.Resource) { e.Changes, e.IgnoreFields = true, []string{"data.note"} })

const earlierObjects = 40

// earlierHistory is what the server did until the daemon that wrote testdata/earlier
// was killed. settle is called where that had caught up.
func earlierHistory(w *harness, settle func()) {
	for i := range earlierObjects {
		w.set("default", fmt.Sprintf("a%02d", i), "Pending", strings.Repeat("note ", i))
	}
	settle()
	for i := range earlierObjects / 2 {
		w.set("default", fmt.Sprintf("a%02d", i), "Running", "1")
	}
	settle()
	// In the journal, and in no commit:
	for i := range earlierObjects / 4 {
		w.set("default", fmt.Sprintf("a%02d", i), "Failed", "2")
	}
}

// The files of the release that packed previous versions in a format of its own open
// and resume: there is no gap, and the next line of each object says what changed.
func TestFilesOfAnEarlierRelease(t *testing.T) {
	uids := func(n uint64) string { return fmt.Sprintf("11111111-2222-3333-4444-%012x", n) } // as those files have them
	bubble(t, kubefake.Options{UID: uids}, earlier, func(w *harness) {
		earlierHistory(w, func() {})
		for _, name := range []string{"journal.jsonl", "checkpoint.db"} {
			in, err := os.Open(filepath.Join("testdata", "earlier", name+".gz"))
			must(t, err)
			z, err := gzip.NewReader(in)
			must(t, err)
			content, err := io.ReadAll(z)
			must(t, err)
			must(t, in.Close())
			must(t, os.WriteFile(filepath.Join(w.dir, name), content, 0o600))
		}
		n := len(w.lines())
		w.start()
		w.settled()
		if want := fmt.Sprintf(`"lines": %d,`, earlierObjects/4); !strings.Contains(w.log.String(), want) {
			t.Errorf("the log has no %s read back", want)
		}
		for i := range earlierObjects {
			w.set("default", fmt.Sprintf("a%02d", i), "Done", "3")
		}
		w.settled()
		lines := w.lines()[n:]
		if len(lines) != earlierObjects {
			t.Fatalf("%d lines, want %d", len(lines), earlierObjects)
		}
		for i, l := range lines {
			was := "Pending"
			switch {
			case i < earlierObjects/4:
				was = "Failed"
			case i < earlierObjects/2:
				was = "Running"
			}
			if got := string(l.Raw("changes")); !strings.Contains(got, `"old":"`+was+`","value":"Done"`) {
				t.Errorf("%s: changes %s", l.Name, got)
			}
		}
		if log := w.log.String(); strings.Contains(log, "cannot be read") {
			t.Error("something that was stored could not be read")
		}
	})
}
