package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/moby/buildkit/solver/pb"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// What docker build makes of the Dockerfile, by the code that docker build reads it with: an image of the program alone, as
// the manifests want it, on each architecture, compiled on the machine's own and not under emulation.
func TestDockerfile(t *testing.T) {
	spec := mustKustomize(t, "deployment").pod(t).Spec
	ports := make(map[string]struct{})
	for _, p := range daemon(t, spec).Ports {
		ports[fmt.Sprintf("%d/tcp", p.ContainerPort)] = struct{}{}
	}
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	here := ocispecs.Platform{OS: "linux", Architecture: "amd64"}
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			image, ops := solve(t, here, ocispecs.Platform{OS: "linux", Architecture: arch})
			if image.OS != "linux" || image.Architecture != arch {
				t.Errorf("the image is for %s/%s", image.OS, image.Architecture)
			}
			want := ocispecs.ImageConfig{
				User: fmt.Sprintf("%d:%d", user, user), ExposedPorts: ports, Entrypoint: []string{"/kubejournal"},
				Cmd: []string{"run"}, WorkingDir: "/", StopSignal: "SIGTERM",
				Labels: map[string]string{
					ocispecs.AnnotationTitle: "kubejournal", ocispecs.AnnotationDescription: c.Metadata.Description,
					ocispecs.AnnotationVersion: version, ocispecs.AnnotationRevision: commit,
				},
			}
			given := cmpopts.IgnoreFields(want, "Env", "ArgsEscaped") // by docker build to each image
			if diff := cmp.Diff(want, image.Config, given); diff != "" {
				t.Errorf("want (-), the image has (+):\n%s", diff)
			}
			// The last step copies one file, onto nothing.
			var built *pb.Op
			for _, op := range ops {
				if exec := op.GetExec(); exec != nil && slices.ContainsFunc(exec.Meta.Args, func(a string) bool { return strings.Contains(a, "make build") }) {
					built = op
				}
			}
			last := ops[len(ops)-2] // the one after it only says which is the result
			actions := last.GetFile().GetActions()
			if len(actions) != 1 || actions[0].Input != -1 {
				t.Fatalf("the image is made by %v", last)
			}
			from := actions[0].GetCopy()
			if from.GetSrc() != "/src/bin/kubejournal" || from.GetDest() != "/kubejournal" {
				t.Errorf("the image has a copy of %s at %s", from.GetSrc(), from.GetDest())
			}
			if built == nil {
				t.Fatal("the program is not built by make build")
			}
			if got := built.Platform.Architecture; got != here.Architecture {
				t.Errorf("the program is compiled on %s", got)
			}
			command := strings.Join(built.GetExec().Meta.Args, " ")
			for _, want := range []string{"GOOS=$TARGETOS ", "GOARCH=$TARGETARCH ", `VERSION="$VERSION"`, `COMMIT="$COMMIT"`} {
				if !strings.Contains(command, want) {
					t.Errorf("%s has no %s", command, want)
				}
			}
			for _, want := range []string{"TARGETOS=linux", "TARGETARCH=" + arch, "VERSION=" + version, "COMMIT=" + commit} {
				if !slices.Contains(built.GetExec().Meta.Env, want) {
					t.Errorf("%s runs without %s", command, want)
				}
			}
		})
	}
}

// Each source of the program comes to docker build, past .dockerignore, and none that is not copied from there.
func TestDockerContext(t *testing.T) {
	_, ops := solve(t, ocispecs.Platform{OS: "linux", Architecture: "amd64"}, ocispecs.Platform{OS: "linux", Architecture: "amd64"})
	var copied []string
	for _, op := range ops {
		if source := op.GetSource(); source.GetIdentifier() == "local://context" {
			paths := source.Attrs[pb.AttrFollowPaths]
			if paths == "" {
				t.Fatal("the Dockerfile copies the whole folder")
			}
			if err := json.Unmarshal([]byte(paths), &copied); err != nil {
				t.Fatal(err)
			}
		}
	}
	f, err := os.Open(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	patterns, err := ignorefile.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}

	const format = `{{with .Module}}{{if .Main}}{{range $.GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{range $.EmbedFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`
	cmd := exec.Command("go", "list", "-deps", "-f", format, "./cmd/kubejournal")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list sources: %v", err)
	}
	base, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	needed := []string{"go.mod", "go.sum", "Makefile"}
	for file := range strings.FieldsSeq(string(out)) {
		name, err := filepath.Rel(base, file)
		if err != nil {
			t.Fatal(err)
		}
		needed = append(needed, name)
	}
	used := make(map[string]bool)
	for _, name := range needed {
		top, _, _ := strings.Cut(name, "/")
		used[top] = true
		if out, err := ignored.MatchesOrParentMatches(name); err != nil || out {
			t.Errorf(".dockerignore keeps %s from the build: %v", name, err)
		}
	}
	for i := range copied {
		copied[i] = strings.TrimPrefix(copied[i], "/")
	}
	slices.Sort(copied)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(used)), copied); diff != "" {
		t.Errorf("sources (-), copied by the Dockerfile (+):\n%s", diff)
	}
}

// solve is the image that a docker build on a machine makes for a platform, and what it does for it, step by step. What
// docker build would warn of is a fault.
func solve(t *testing.T, here, platform ocispecs.Platform) (ocispecs.Image, []*pb.Op) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	registry := registry{}
	result, err := dockerfile2llb.Dockerfile2LLB(t.Context(), content, dockerfile2llb.ConvertOpt{
		Config: dockerui.Config{
			BuildArgs:      map[string]string{"VERSION": version, "COMMIT": commit},
			BuildPlatforms: []ocispecs.Platform{here},
		},
		TargetPlatform: &platform,
		MetaResolver:   registry,
		Warn: func(rule, description, _, message string, at []parser.Range) {
			t.Errorf("Dockerfile:%d: %s: %s (%s)", at[0].Start.Line, rule, message, description)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	minor := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if bases := slices.Collect(maps.Keys(registry)); len(bases) != 1 || !strings.HasPrefix(bases[0], "docker.io/library/golang:"+string(minor[1])+".") {
		t.Errorf("the image is built from %v; go.mod wants Go %s", bases, minor[1])
	}
	definition, err := result.State.Marshal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ops := make([]*pb.Op, len(definition.Def))
	for i, text := range definition.Def {
		ops[i] = new(pb.Op)
		if err := ops[i].UnmarshalVT(text); err != nil {
			t.Fatal(err)
		}
	}
	return ocispecs.Image{Platform: result.Image.Platform, Config: result.Image.Config.ImageConfig}, ops
}

// registry has each image that it is asked for, and remembers which.
type registry map[string]bool

func (r registry) ResolveImageConfig(_ context.Context, ref string, opt sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	r[ref] = true
	config, err := json.Marshal(ocispecs.Image{
		Platform: *opt.ImageOpt.Platform,
		RootFS:   ocispecs.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromString(ref)}}, // without a layer it were scratch
	})
	return ref, "", config, err
}

var _ llb.ImageMetaResolver = registry{}
