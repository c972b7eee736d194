// Package config reads and checks the configuration: flags over environment over file over defaults.
//
// Load returns either a Config that can be run or Faults, one for each thing that is wrong. Nothing here uses a
// cluster, or the disk beyond the config file itself, so that a config can be checked anywhere.
package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Config is a complete, checked configuration. Struct tags describe the keys of the file: mapstructure is the key's
// name, eg an example for messages (of a list or a duration), off the value that turns the key off, takes what text it
// takes. Fields with json:"-" are the place of a part, which Same ignores.
type Config struct {
	Cluster    string     `mapstructure:"cluster"` // stamped on every line; "" leaves it out
	Kubernetes Kubernetes `mapstructure:"kubernetes"`
	// what an entry of Resources leaves out; place puts it there
	Defaults  Defaults   `mapstructure:"defaults" json:"-"`
	Resources []Resource `mapstructure:"resources" eg:"[pods, deployments.apps]"`
	Shard     Shard      `mapstructure:"shard"` // the daemon's share of every stream
	// LeaderElection is for several replicas, of which one writes.
	LeaderElection LeaderElection `mapstructure:"leaderElection"`
	Output         Output         `mapstructure:"output"`
	Audit          Audit          `mapstructure:"audit"`
	Checkpoint     Checkpoint     `mapstructure:"checkpoint"`
	RedactSecrets  bool           `mapstructure:"redactSecrets"`
	Redact         []Redact       `mapstructure:"redact" eg:"[{resource: configmaps, fields: [data.password]}]"`
	// dotted paths
	DropFields []string `mapstructure:"dropFields" eg:"[metadata.managedFields]" off:"[]"`
	// "" listens nowhere
	Listen string `mapstructure:"listen" off:"\"\"" takes:"host:port in quotes, such as \":8080\""`
	Log    Log    `mapstructure:"log"`

	src source // where each value was written, for the messages
}

// Kubernetes says how to reach the API server; with both fields empty as kubectl does, in-cluster as the last resort.
type Kubernetes struct {
	Kubeconfig string `mapstructure:"kubeconfig"`
	Context    string `mapstructure:"context"`
}

// Resource is one entry of the resources list as the user wrote it; package discovery resolves it to streams. It has
// one field for each key, and the place of the entry.
type Resource struct {
	Name    string  `mapstructure:"resource"` // what kubectl takes: pods, deploy, deployments.v1.apps
	Group   *string `mapstructure:"group"`    // nil: not set; "" is core
	Version string  `mapstructure:"version"`  // "": the server's preferred version
	// Exclude are resources that a wildcard does not cover, as kubectl takes them.
	Exclude    []string `mapstructure:"exclude" eg:"[events, leases.coordination.k8s.io]"`
	Namespaces []string `mapstructure:"namespaces" eg:"[web, db]"` // nil: one watch for all
	// ExcludeNamespaces are globs; an object in a namespace that one matches is not written.
	ExcludeNamespaces []string `mapstructure:"excludeNamespaces" eg:"[kube-*]"`
	LabelSelector     string   `mapstructure:"labelSelector"`               // canonical after Load
	FieldSelector     string   `mapstructure:"fieldSelector"`               // canonical after Load
	Types             []string `mapstructure:"types" eg:"[ADDED, DELETED]"` // of lines about objects; nil: all three
	Filter            string   `mapstructure:"filter"`                      // CEL over object and type; "": everything
	Initial           string   `mapstructure:"initial"`                     // Snapshot or Skip
	// PayloadObject, PayloadMetadata or PayloadNone
	Payload string `mapstructure:"payload"`
	// MODIFIED lines list the fields that changed
	Changes bool `mapstructure:"changes"`
	// IgnoreFields are dotted paths; a MODIFIED in which nothing else changed is not written.
	IgnoreFields []string `mapstructure:"ignoreFields" eg:"[status]"`

	// Namespace comes from -n: the one namespace of a resource that has namespaces, ignored where it has none (as
	// kubectl does). Only set where Namespaces is nil.
	Namespace string `mapstructure:"-"`

	Shard Shard `mapstructure:"-"` // that of the config, the zero Shard where it is all there is

	// File, Line and Entry are where this was written, e.g. kubejournal.yaml, 12 and resources[2]; Line is 0 outside a
	// file.
	File  string `mapstructure:"-" json:"-"`
	Line  int    `mapstructure:"-" json:"-"`
	Entry string `mapstructure:"-" json:"-"`
}

// Shard is a share of a stream's objects, by the hash of their uids: one of Count equal ones. The zero Shard is all of
// them.
type Shard struct {
	Index int `mapstructure:"index" takes:"$(NAME), the number in a variable such as POD_INDEX"` // from 0 on
	Count int `mapstructure:"count"`
}

// String names a shard as stream names do; "" for all objects.
func (s Shard) String() string {
	if s.Count <= 1 {
		return ""
	}
	return fmt.Sprintf("%d-of-%d", s.Index, s.Count)
}

// LeaderElection has the names that Kubernetes' own components give these keys. With an empty LeaseName there is none.
type LeaderElection struct {
	LeaseName      string        `mapstructure:"leaseName" off:"\"\""`
	LeaseNamespace string        `mapstructure:"leaseNamespace"`         // "": that of the pod
	LeaseDuration  time.Duration `mapstructure:"leaseDuration" eg:"15s"` // in whole seconds, as the Lease has it
	RenewDeadline  time.Duration `mapstructure:"renewDeadline" eg:"10s"`
	RetryPeriod    time.Duration `mapstructure:"retryPeriod" eg:"2s"`
}

// Lease is the name of the Lease: each shard has one of its own, since each has a leader.
func (c *Config) Lease() string {
	if c.LeaderElection.LeaseName == "" || c.Shard.Count <= 1 {
		return c.LeaderElection.LeaseName
	}
	return c.LeaderElection.LeaseName + "-" + c.Shard.String()
}

// Defaults has the keys of an entry that can be set for all entries at once.
type Defaults Resource

// ownKeys are the keys that each entry sets for itself, and why they cannot be among the defaults.
var ownKeys = map[string]string{
	"resource":   "it says which resource an entry is about",
	"group":      "it says which resource an entry is about",
	"version":    "it says which resource an entry is about",
	"exclude":    "it says what a wildcard covers",
	"namespaces": "not every resource has them, and no entry could ask for all again; run -n names one for those that have",
}

// IsWildcard reports whether the entry covers all resources of a group, or a resource of every group.
func (r Resource) IsWildcard() bool {
	return r.Name == Wildcard || r.Group != nil && *r.Group == Wildcard
}

// What to do with the objects that exist when a stream starts for the first time.
const (
	Snapshot = "snapshot" // write them
	Skip     = "skip"     // start from now
)

// How much of its object a line carries.
const (
	PayloadObject   = "object"
	PayloadMetadata = "metadata"
	PayloadNone     = "none"
)

// CommandLine is the File of an entry that is an argument.
const CommandLine = "command line"

// Wildcard is every resource, or every group.
const Wildcard = "*"

// Output is where the lines go.
type Output struct {
	Path string `mapstructure:"path"` // Stdout or a file
	// Rotation; without effect on Stdout.
	// bytes at which the file is rotated; 0: never
	MaxSize int64 `mapstructure:"maxSize"`
	// older rotated files are removed; 0: no limit
	MaxAge time.Duration `mapstructure:"maxAge" eg:"7d for a week"`
	// more rotated files are removed, the oldest first; 0: no limit
	MaxFiles int `mapstructure:"maxFiles"`
	// younger files lose the lines of the largest namespace first; 0: none does
	MinAge time.Duration `mapstructure:"minAge" eg:"24h"`
	// bytes of all files above which the oldest are removed; 0: no limit
	MaxTotalSize int64 `mapstructure:"maxTotalSize"`
	Compress     bool  `mapstructure:"compress"` // rotated files, gzip
	// a line says the checksum of each rotated file
	Seal bool   `mapstructure:"seal"`
	Sync string `mapstructure:"sync"` // SyncCommit or SyncNever
	// a longer line keeps its metadata only; 0: no limit
	MaxLineBytes int64 `mapstructure:"maxLineBytes"`
}

// Stdout is the output path of the standard output.
const Stdout = "-"

// When the output file is flushed to the disk.
const (
	SyncCommit = "commit" // before each checkpoint commit
	SyncNever  = "never"  // when the kernel likes
)

// Checkpoint is where positions are stored. An empty Path stores none: every start begins with a snapshot.
type Checkpoint struct {
	Path     string        `mapstructure:"path" off:"\"\""`
	Interval time.Duration `mapstructure:"interval" eg:"30s, 1m or 500ms"`
}

// Audit is which audit logs of the API server are followed, for the users who made the changes.
type Audit struct {
	// globs of files on this machine; nil: none is followed
	Paths []string `mapstructure:"paths" eg:"[/var/log/kubernetes/audit*.log*]"`
	// they have the requests to all API servers of the cluster
	Complete bool `mapstructure:"complete"`
}

// Redact names fields of one resource whose values never leave the process.
type Redact struct {
	Resource string   `mapstructure:"resource"`                    // what kubectl takes
	Fields   []string `mapstructure:"fields" eg:"[data.password]"` // dotted paths, e.g. data.password

	File  string `mapstructure:"-" json:"-"`
	Line  int    `mapstructure:"-" json:"-"`
	Entry string `mapstructure:"-" json:"-"`
}

// Log is the level and format of the daemon's own log on stderr.
type Log struct {
	Level  string `mapstructure:"level"`  // debug, info, warn or error
	Format string `mapstructure:"format"` // json or console
}

// Default returns the configuration of an empty file. All defaults are set here.
func Default() *Config {
	return &Config{
		Defaults: Defaults{Initial: Snapshot, Payload: PayloadObject, Entry: "defaults"},
		Output: Output{
			Path: Stdout, MaxSize: 100 << 20, MaxAge: 7 * 24 * time.Hour, MaxFiles: 10, MinAge: 24 * time.Hour,
			Compress: true, Sync: SyncCommit,
		},
		LeaderElection: LeaderElection{
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		},
		Checkpoint:    Checkpoint{Path: "kubejournal.db", Interval: time.Second},
		RedactSecrets: true,
		DropFields:    []string{"metadata.managedFields"},
		Listen:        ":8080",
		Log:           Log{Level: "info", Format: "json"},
	}
}

// At is Fault of a key outside of entries.
func (c *Config) At(key, msg string) Fault { return c.Fault("", key, msg) }

// Hash is that of the config file, e.g. sha256:9f86d0...; "" when there is none.
func (c *Config) Hash() string { return c.src.hash }

// Same reports whether two configs mean the same, wherever their values were written.
func (c *Config) Same(other *Config) bool {
	a, errA := json.Marshal(c)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// CanonicalLabels returns the one spelling of a label selector that names its stream, so that spaces, order and ==
// instead of = do not make another stream of it.
func CanonicalLabels(selector string) (string, error) {
	requirements, err := labels.ParseToRequirements(selector)
	if err != nil {
		return "", err
	}
	terms := make([]string, 0, len(requirements))
	for _, r := range requirements {
		// Only the operator can hold ==.
		terms = append(terms, strings.Replace(r.String(), "==", "=", 1))
	}
	slices.Sort(terms)
	return strings.Join(slices.Compact(terms), ","), nil
}

// CanonicalFields does for a field selector what CanonicalLabels does for a label selector.
func CanonicalFields(selector string) (string, error) {
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return "", err
	}
	return parsed.String(), nil
}

// canonicalise brings checked entries into one spelling, so that an edit that changes none of their meaning is no
// change.
func (c *Config) canonicalise() {
	c.Audit.Paths = slices.Compact(slices.Sorted(slices.Values(c.Audit.Paths)))
	for i := range c.Resources {
		r := &c.Resources[i]
		r.LabelSelector, _ = CanonicalLabels(r.LabelSelector) // checked before
		r.FieldSelector, _ = CanonicalFields(r.FieldSelector)
		r.Filter = strings.TrimSpace(r.Filter)
		if c.Shard.Count > 1 {
			r.Shard = c.Shard
		}
		r.ExcludeNamespaces = slices.Compact(slices.Sorted(slices.Values(r.ExcludeNamespaces)))
		r.IgnoreFields = slices.Compact(slices.Sorted(slices.Values(r.IgnoreFields)))
		slices.SortFunc(r.Types, func(a, b string) int { return slices.Index(types, a) - slices.Index(types, b) })
		if slices.Equal(r.Types, types) {
			r.Types = nil
		}
		r.Exclude = slices.Collect(slices.Values(r.Exclude)) // nil if it is empty, as those above
	}
}
