package deploy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// repository is where the image under test would be pushed.
const repository = "registry.example.com/kubejournal"

// layout is the folder that make image writes.
type layout string

// makeImage makes the image in a tree that build has made.
func makeImage(tree string) (layout, error) {
	cmd := exec.Command("make", "--no-print-directory", "image", "IMAGE="+repository, "VERSION="+version, "COMMIT="+commit)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make image: %w\n%s", err, out)
	}
	return layout(filepath.Join(tree, "bin", "image")), nil
}

// theImage is the image under test.
func theImage(t *testing.T) layout {
	t.Helper()
	l, err := shared.image()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// blob reads what a descriptor names, which must be that.
func (l layout) blob(d ocispecs.Descriptor) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(string(l), "blobs", string(d.Digest.Algorithm()), d.Digest.Encoded()))
	if err == nil && (digest.FromBytes(content) != d.Digest || int64(len(content)) != d.Size) {
		err = fmt.Errorf("%s is not what it is named", d.Digest)
	}
	return content, err
}

// decode reads a blob of JSON.
func (l layout) decode(d ocispecs.Descriptor, v any) error {
	content, err := l.blob(d)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, v)
}

// images returns the image's manifests by architecture.
func (l layout) images() (map[string]ocispecs.Descriptor, error) {
	content, err := os.ReadFile(filepath.Join(string(l), ocispecs.ImageIndexFile))
	var top, of ocispecs.Index
	if err := errors.Join(err, json.Unmarshal(content, &top)); err != nil {
		return nil, err
	}
	names := map[string]string{ocispecs.AnnotationRefName: version, "io.containerd.image.name": repository + ":" + version}
	if len(top.Manifests) != 1 || top.Manifests[0].MediaType != ocispecs.MediaTypeImageIndex || !maps.Equal(top.Manifests[0].Annotations, names) {
		return nil, fmt.Errorf("the layout has %+v", top.Manifests)
	}
	if err := l.decode(top.Manifests[0], &of); err != nil {
		return nil, err
	}
	all := make(map[string]ocispecs.Descriptor)
	for _, d := range of.Manifests {
		all[d.Platform.Architecture] = d
	}
	return all, nil
}

// unpack makes a root folder of the image for this machine, and returns what its containers are started with.
func (l layout) unpack(to string) (*ocispecs.ImageConfig, error) {
	all, err := l.images()
	if err != nil {
		return nil, err
	}
	return l.unpackOne(all[runtime.GOARCH], to)
}

func (l layout) unpackOne(d ocispecs.Descriptor, to string) (*ocispecs.ImageConfig, error) {
	var (
		m     ocispecs.Manifest
		image ocispecs.Image
	)
	if err := errors.Join(l.decode(d, &m), l.decode(m.Config, &image)); err != nil {
		return nil, err
	}
	if len(m.Layers) != 1 || image.Platform.OS != "linux" || image.Architecture != d.Platform.Architecture || len(image.RootFS.DiffIDs) != 1 {
		return nil, fmt.Errorf("%d layers, for %+v, %+v", len(m.Layers), image.Platform, image.RootFS)
	}
	packed, err := l.blob(m.Layers[0])
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	files, err := io.ReadAll(z)
	if err != nil || digest.FromBytes(files) != image.RootFS.DiffIDs[0] {
		return nil, errors.Join(err, errors.New("the layer is not what the config names"))
	}
	for t := tar.NewReader(bytes.NewReader(files)); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return &image.Config, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg || h.Uid != 0 || !filepath.IsLocal(h.Name) {
			return nil, fmt.Errorf("the layer has %+v", h)
		}
		content, err := io.ReadAll(t)
		if err := errors.Join(err, os.WriteFile(filepath.Join(to, h.Name), content, h.FileInfo().Mode())); err != nil {
			return nil, err
		}
	}
}

// make image makes the image that docker build makes of the Dockerfile, with the program that make build makes; and the same
// one again.
func TestImage(t *testing.T) {
	l := theImage(t)
	all, err := l.images()
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	if len(all) != len(machines) {
		t.Errorf("it has images for %v", all)
	}
	for arch, machine := range machines {
		to := t.TempDir()
		got, err := l.unpackOne(all[arch], to)
		if err != nil {
			t.Fatalf("%s: %v", arch, err)
		}
		want, _ := solve(t, ocispecs.Platform{OS: "linux", Architecture: "amd64"}, ocispecs.Platform{OS: "linux", Architecture: arch})
		given := cmpopts.IgnoreFields(want.Config, "Env", "ArgsEscaped") // by docker build to each image
		if diff := cmp.Diff(want.Config, *got, given); diff != "" {
			t.Errorf("%s: docker build (-), make image (+):\n%s", arch, diff)
		}
		names, err := filepath.Glob(filepath.Join(to, "*"))
		if err != nil || len(names) != 1 {
			t.Errorf("%s: the image has %v, %v", arch, names, err)
		}
		program := filepath.Join(to, "kubejournal")
		f, err := elf.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if f.Machine != machine {
			t.Errorf("%s: the program is for %s", arch, f.Machine)
		}
		if arch == runtime.GOARCH {
			a, errA := os.ReadFile(program)
			b, errB := os.ReadFile(kubejournal(t))
			if errA != nil || errB != nil || !bytes.Equal(a, b) {
				t.Errorf("it is not the program of make build: %v, %v", errA, errB)
			}
		}
	}
	before, err := os.ReadFile(filepath.Join(string(l), ocispecs.ImageIndexFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := makeImage(filepath.Dir(filepath.Dir(string(l)))); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(filepath.Join(string(l), ocispecs.ImageIndexFile)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("made twice, it is %s and %s, %v", before, after, err)
	}
}
