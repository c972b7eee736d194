package deploy

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// What a release would be stamped with.
const (
	version = "v1.2.3"
	commit  = "0123456789abcdef0123456789abcdef01234567"
)

// The program is the same wherever it is built, needs no library, and says what it is.
func TestBinary(t *testing.T) {
	first := kubejournal(t)
	second, err := build(filepath.Join(t.TempDir(), "another", "place"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("two builds of the same sources differ")
	}
	if bytes.Contains(a, []byte(shared.dir)) {
		t.Error("the program names the folder that it was built in")
	}
	if runtime.GOOS == "linux" {
		f, err := elf.Open(first)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		libraries, err := f.ImportedLibraries()
		interpreted := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
		if err != nil || len(libraries) > 0 || interpreted {
			t.Errorf("the program needs %v: %v", libraries, err)
		}
	}
	said := string(ask(t, mustKustomize(t, "deployment"), ".", "version"))
	if !strings.Contains(said, version) || !strings.Contains(said, commit) {
		t.Errorf("version says %s", said)
	}
}
