// Command image writes an image of kubejournal for several platforms without a daemon, a registry or root: an OCI image
// layout (https://github.com/opencontainers/image-spec/blob/main/image-layout.md), which skopeo, crane, buildah and ctr
// take, and docker load as a tar file. What the image is beside its program, such as user and labels, is read from the
// last stage of the Dockerfile, so that both ways make the same image.
//
//	image -output bin/image -name registry.example.com/kubejournal:v1 -arg VERSION=v1 \
//		linux/amd64=bin/amd64/kubejournal linux/arm64=bin/arm64/kubejournal
//
// The same programs and arguments give the same image, byte for byte.
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	args := make(arguments)
	output := flag.String("output", "image", "`FOLDER` of the layout; existing content is replaced")
	dockerfile := flag.String("dockerfile", "Dockerfile", "`FILE` whose last stage says what the image is")
	name := flag.String("name", "image:latest", "`NAME:TAG` under which the image is loaded")
	flag.Var(args, "arg", "`NAME=VALUE` of an ARG; again for each")
	flag.Parse()
	digest, err := write(*output, *dockerfile, *name, args, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(digest)
}

// arguments are build arguments.
type arguments map[string]string

func (a arguments) String() string { return "" }

func (a arguments) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("not NAME=VALUE")
	}
	a[name] = value
	return nil
}

// Media types of https://github.com/opencontainers/image-spec/blob/main/media-types.md.
const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor names a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// index lists manifests, or other indexes.
type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

// config is what a container is started with.
type config struct {
	User         string              `json:"User,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Cmd          []string            `json:"Cmd,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
	Labels       map[string]string   `json:"Labels,omitempty"`
	StopSignal   string              `json:"StopSignal,omitempty"`
}

// image is a platform's.
type image struct {
	Created string `json:"created"`
	platform
	Config config `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// epoch is when everything was made, so that the same sources make the same image.
const epoch = "1970-01-01T00:00:00Z"

// write writes the layout and returns the digest of the image, which is that of its index.
func write(output, dockerfile, name string, args arguments, programs []string) (digest string, err error) {
	c, err := readDockerfile(dockerfile, args)
	if err != nil {
		return "", err
	}
	if len(programs) == 0 {
		return "", errors.New("no program; name each as linux/amd64=FILE")
	}
	if err := os.RemoveAll(output); err != nil {
		return "", err
	}
	l := layout(output)
	if err := os.MkdirAll(l.blobs(), 0o755); err != nil {
		return "", err
	}
	all := index{SchemaVersion: 2, MediaType: indexType}
	for _, p := range programs {
		where, path, ok := strings.Cut(p, "=")
		system, architecture, both := strings.Cut(where, "/")
		if !ok || !both {
			return "", fmt.Errorf("%q is not OS/ARCHITECTURE=FILE", p)
		}
		d, err := l.addPlatform(platform{architecture, system}, path, c)
		if err != nil {
			return "", err
		}
		all.Manifests = append(all.Manifests, d)
	}
	top, err := l.addJSON(indexType, all)
	if err != nil {
		return "", err
	}
	// The tag is by the specification; the whole name is what containerd reads.
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": name[strings.LastIndexByte(name, ':')+1:],
		"io.containerd.image.name": name}
	if err := writeJSON(filepath.Join(output, "index.json"),
		index{SchemaVersion: 2, MediaType: indexType, Manifests: []descriptor{top}}); err != nil {
		return "", err
	}
	return top.Digest, writeJSON(filepath.Join(output, "oci-layout"), map[string]string{"imageLayoutVersion": "1.0.0"})
}

// layout is the folder of one.
type layout string

func (l layout) blobs() string { return filepath.Join(string(l), "blobs", "sha256") }

// addPlatform adds a platform's image, of one layer with one file.
func (l layout) addPlatform(p platform, program string, c config) (d descriptor, err error) {
	files, err := layer(program)
	if err != nil {
		return d, err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(files)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		return d, err
	}
	layer, err := l.add(layerType, packed.Bytes())
	if err != nil {
		return d, err
	}
	made := image{Created: epoch, platform: p, Config: c}
	made.RootFS.Type, made.RootFS.DiffIDs = "layers", []string{digestOf(files)}
	about, err := l.addJSON(configType, made)
	if err != nil {
		return d, err
	}
	d, err = l.addJSON(manifestType,
		manifest{SchemaVersion: 2, MediaType: manifestType, Config: about, Layers: []descriptor{layer}})
	d.Platform = &p
	return d, err
}

// layer is the tar file of the program.
func layer(program string) ([]byte, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "kubejournal", Mode: 0o755, Size: int64(len(content)),
		Format: tar.FormatUSTAR})
	if err == nil {
		_, err = t.Write(content)
	}
	return b.Bytes(), errors.Join(err, t.Close())
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// add adds a blob.
func (l layout) add(mediaType string, content []byte) (descriptor, error) {
	d := descriptor{MediaType: mediaType, Digest: digestOf(content), Size: len(content)}
	name := filepath.Join(l.blobs(), strings.TrimPrefix(d.Digest, "sha256:"))
	return d, os.WriteFile(name, content, 0o644) //nolint:gosec // for everybody
}

func (l layout) addJSON(mediaType string, v any) (descriptor, error) {
	content, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return l.add(mediaType, content)
}

func writeJSON(path string, v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644) //nolint:gosec // for everybody
}

// readDockerfile reads what the last stage of a Dockerfile says of the image.
func readDockerfile(path string, args arguments) (c config, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	number, text := 0, ""
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "#") || line == "" && text == "" {
			continue
		}
		var goesOn bool
		if line, goesOn = strings.CutSuffix(line, `\`); goesOn {
			text += line
			continue
		}
		word, rest, _ := strings.Cut(text+line, " ")
		text = ""
		if err := c.take(word, strings.TrimSpace(rest), args); err != nil {
			return c, fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	return c, lines.Err()
}

var (
	pair     = regexp.MustCompile(`(\S+?)="((?:[^"\\]|\\.)*)"`)
	variable = regexp.MustCompile(`\$\{?(\w+)\}?`)
)

// take takes an instruction. What is about the making of the program counts for nothing here; anything else that is not
// known is an error.
func (c *config) take(word, rest string, args arguments) error {
	switch word {
	case "FROM":
		*c = config{WorkingDir: "/"}
	case "ARG", "RUN", "WORKDIR", "COPY":
	case "LABEL":
		if c.Labels == nil {
			c.Labels = make(map[string]string)
		}
		for _, m := range pair.FindAllStringSubmatch(rest, -1) {
			c.Labels[m[1]] = variable.ReplaceAllStringFunc(m[2], func(name string) string {
				return args[strings.Trim(name, "${}")]
			})
		}
	case "USER":
		c.User = rest
	case "EXPOSE":
		c.ExposedPorts = map[string]struct{}{rest + "/tcp": {}}
	case "STOPSIGNAL":
		c.StopSignal = rest
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &c.Entrypoint)
	case "CMD":
		return json.Unmarshal([]byte(rest), &c.Cmd)
	default:
		return fmt.Errorf("%s is not known here", word)
	}
	return nil
}
