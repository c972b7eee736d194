package segment

import (
	"path/filepath"
	"testing"

	"kubejournal/internal/host/disk"
)

func TestIsRotated(t *testing.T) {
	for name, want := range map[string]bool{
		"journal-2026-11-20T16-10-22.123.jsonl": true, "a/b-c-2026-11-20T16-10-22.123.log.gz": true, "journal-2026-11-20T16-10-22.123": true,
		"journal.jsonl": false, "2026-11-20T16-10-22.123.jsonl": false, "journal-2026-13-20T16-10-22.123.jsonl": false, "journal.jsonl.1": false, "": false,
	} {
		if got := IsRotated(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Neither a reader of the journal nor its rotation takes the owner file for a file of it.
func TestOwnerFileIsNoSegment(t *testing.T) {
	for _, path := range []string{"journal.jsonl", ".journal.jsonl", "journal", "1", ".1"} {
		n, own := NamesOf(path), filepath.Base(disk.OwnerPath(path))
		if _, rotated := n.Parse(own); rotated || n.related(own) || n.LeftOver(own) || IsRotated(own) {
			t.Errorf("%s is taken for a file of %s", own, path)
		}
	}
}
