package deploy

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
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
	first := program(t)
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

// The image is built as the program under test is, and its user is the one of the manifests.
func TestDockerfile(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	last := text[strings.LastIndex(text, "\nFROM "):]
	for _, want := range []string{"\nFROM scratch\n", "\nUSER 65532:65532\n", "\nENTRYPOINT [\"/kubejournal\"]\n", "COPY --from=build /src/bin/kubejournal /kubejournal\n"} {
		if !strings.Contains(last, want) {
			t.Errorf("the image has no %q", want)
		}
	}
	if !strings.Contains(text, `make build VERSION="$VERSION" COMMIT="$COMMIT"`) {
		t.Error("the image is not built by make build with a version")
	}
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	minor := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if !strings.Contains(text, "golang:"+string(minor[1])+".") {
		t.Errorf("the image is not built with Go %s, which go.mod wants", minor[1])
	}
}
