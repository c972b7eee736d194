package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kubejournal/test/program"
)

// What chooses the control plane of each cluster that is not given its programs. Only this file reads it.
const (
	kubernetesVariable = "KUBEJOURNAL_TEST_CONTROLPLANE" // a folder of test/controlplane, as v1.32; default: the newest
	watchListVariable  = "KUBEJOURNAL_TEST_WATCHLIST"    // off, or nothing
)

// watchListGate is the API server's feature gate for streamed initial events, known to servers from 1.27 on.
const watchListGate = "WatchList"

// Variant is a control plane that tests can run on. The zero value is the newest Kubernetes as it comes.
type Variant struct {
	Kubernetes  string // a folder of test/controlplane, as v1.32; empty: the newest
	NoWatchList bool   // the API server refuses to stream initial events
}

// Variants are the control planes of make test-skew, beside the zero Variant of make test. The one that streams no
// initial events stands for all servers in which that is off as they come: those before 1.32, and 1.33.
func Variants() []Variant {
	return []Variant{{Kubernetes: "v1.32"}, {Kubernetes: "v1.34"}, {NoWatchList: true}}
}

// ChosenVariant is the one that the environment names.
func ChosenVariant() (Variant, error) {
	root, err := program.Root()
	if err != nil {
		return Variant{}, err
	}
	return chooseVariant(root, os.Getenv)
}

// chooseVariant refuses what it does not know: else tests would pass on another server than was asked for.
func chooseVariant(root string, getenv func(string) string) (Variant, error) {
	v := Variant{Kubernetes: getenv(kubernetesVariable)}
	if v.Kubernetes != "" {
		modules, err := filepath.Glob(filepath.Join(root, "test", defaultModule, "*", "go.mod"))
		if err != nil {
			return Variant{}, fmt.Errorf("look for control planes: %w", err)
		}
		var known []string
		for _, file := range modules {
			known = append(known, filepath.Base(filepath.Dir(file)))
		}
		if !slices.Contains(known, v.Kubernetes) {
			return Variant{}, fmt.Errorf("%s: there is no control plane %q but %s", kubernetesVariable, v.Kubernetes,
				strings.Join(known, ", "))
		}
	}
	switch value := getenv(watchListVariable); value {
	case "":
	case "off":
		v.NoWatchList = true
	default:
		return Variant{}, fmt.Errorf("%s: %q is not off, the one value that it has", watchListVariable, value)
	}
	return v, nil
}

// Environ is the environment that chooses v, whatever was chosen before.
func (v Variant) Environ() []string {
	watchList := ""
	if v.NoWatchList {
		watchList = "off"
	}
	return []string{kubernetesVariable + "=" + v.Kubernetes, watchListVariable + "=" + watchList}
}

func (v Variant) String() string {
	name := v.Kubernetes
	if name == "" {
		name = "newest"
	}
	if v.NoWatchList {
		name += " without " + watchListGate
	}
	return name
}

// Build is BuildFrom for the folder of this variant.
func (v Variant) Build(ctx context.Context) (Binaries, error) { return BuildFrom(ctx, v.folder()) }

// Release is the version of Kubernetes that the variant's module pins.
func (v Variant) Release(ctx context.Context) (string, error) {
	root, err := program.Root()
	if err != nil {
		return "", err
	}
	return release(ctx, filepath.Join(root, "test", v.folder()))
}

func (v Variant) folder() string { return filepath.Join(defaultModule, v.Kubernetes) }

// Variant is what the cluster runs. A cluster that was given its programs is taken for the newest.
func (c *Cluster) Variant() Variant { return c.variant }

// Version is that of the API server, as it says itself.
func (c *Cluster) Version(ctx context.Context) (string, error) {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := c.call(ctx, http.MethodGet, "/version", nil, &version); err != nil {
		return "", fmt.Errorf("ask for version: %w", err)
	}
	return version.GitVersion, nil
}
