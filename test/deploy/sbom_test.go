package deploy

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The SBOM lists what Go has recorded in the program, each module with its version and hash, and nothing else; and it is
// the same when it is made again.
func TestSBOM(t *testing.T) {
	file := kubejournal(t)
	text := sbom(t, file)
	if again := sbom(t, file); !bytes.Equal(text, again) {
		t.Error("two SBOMs of the same program differ")
	}
	checkSBOM(t, text)
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	// Neither would be the same in a later second.
	if bom.Metadata.Timestamp != "" || bom.SerialNumber != "" {
		t.Errorf("the SBOM has a time, %q, or a serial number, %q", bom.Metadata.Timestamp, bom.SerialNumber)
	}
	if c := bom.Metadata.Component; c.Name != "kubejournal" || c.Version != version || c.Type != cdx.ComponentTypeApplication {
		t.Errorf("the SBOM is of %s %s %s", c.Type, c.Name, c.Version)
	}

	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(content)
	properties := make(map[string]string)
	for _, p := range *bom.Metadata.Properties {
		properties[p.Name] = p.Value
	}
	if properties["cdx:gomod:binary:hash:SHA-256"] != hex.EncodeToString(hash[:]) {
		t.Error("the SBOM has the hash of another program")
	}

	// What go version -m prints.
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type module struct{ Version, PackageURL, Hash string }
	want := map[string]module{"std": {info.GoVersion, "pkg:golang/std@" + info.GoVersion, ""}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
		if err != nil {
			t.Fatalf("%s: sum %s: %v", m.Path, m.Sum, err)
		}
		want[m.Path] = module{m.Version, "pkg:golang/" + m.Path + "@" + m.Version, hex.EncodeToString(sum)}
	}
	got := make(map[string]module)
	for _, c := range *bom.Components {
		if _, twice := got[c.Name]; twice {
			t.Errorf("the SBOM lists %s twice", c.Name)
		}
		url, _, _ := strings.Cut(c.PackageURL, "?")
		m := module{c.Version, url, ""}
		if c.Hashes != nil {
			for _, h := range *c.Hashes {
				m.Hash += h.Value
			}
		}
		got[c.Name] = m
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in the program (-), in the SBOM (+):\n%s", diff)
	}
}

// sbom is what make sbom writes about the program, in the folder where that was built.
func sbom(t *testing.T, program string) []byte {
	t.Helper()
	bin := filepath.Dir(program)
	tree := filepath.Dir(bin)
	for _, name := range []string{"go.mod", "go.sum"} {
		to := filepath.Join(tree, "tools", "sbom", name)
		if _, err := os.Stat(to); err == nil {
			continue // the tool need not be built again
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := copyFile(filepath.Join(root, "tools", "sbom", name), to); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("make", "--no-print-directory", "sbom", "VERSION="+version, "COMMIT="+commit)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make sbom: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(bin, "kubejournal.sbom.json"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// checkSBOM holds an SBOM against the schema that it names, from CycloneDX's own library.
func checkSBOM(t *testing.T, text []byte) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatalf("find the schema: %v", err)
	}
	schemas := schemaFolder(filepath.Join(strings.TrimSpace(string(dir)), "schema"))
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	name, _ := document.(map[string]any)["$schema"].(string)
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(schemas)
	schema, err := compiler.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(document); err != nil {
		t.Error(err)
	}
}

// schemaFolder has the schemas that else are at http://cyclonedx.org/schema/.
type schemaFolder string

func (f schemaFolder) Load(url string) (any, error) {
	content, err := os.Open(filepath.Join(string(f), path.Base(url)))
	if os.IsNotExist(err) { // the library has one of them under another ending
		content, err = os.Open(filepath.Join(string(f), strings.Replace(path.Base(url), ".schema.json", ".schemax.json", 1)))
	}
	if err != nil {
		return nil, fmt.Errorf("load schema %s: %w", url, err)
	}
	defer content.Close()
	return jsonschema.UnmarshalJSON(content)
}
