// Package config reads what a user asks for: flags over environment over file over defaults, checked as a whole.
//
// Load returns either a Config that can be run or Faults, one for each thing that is wrong. Nothing here talks to a
// cluster or to the disk beyond the config file itself, so that a config can be checked anywhere.
package config

import "time"

// Config is a whole, checked configuration. The mapstructure tags are the keys of the file, spelled as a user writes them.
type Config struct {
	Cluster       string     `mapstructure:"cluster"` // stamped on every line; "" leaves it out
	Kubernetes    Kubernetes `mapstructure:"kubernetes"`
	Resources     []Resource `mapstructure:"resources"`
	Output        Output     `mapstructure:"output"`
	Checkpoint    Checkpoint `mapstructure:"checkpoint"`
	RedactSecrets bool       `mapstructure:"redactSecrets"`
	Redact        []Redact   `mapstructure:"redact"`
	DropFields    []string   `mapstructure:"dropFields"` // dotted paths, e.g. metadata.managedFields
	Listen        string     `mapstructure:"listen"`     // host:port; "" listens nowhere
	Log           Log        `mapstructure:"log"`

	// src says where each value was written, for the messages; nil in a Config that was not loaded.
	src *source
}

// Kubernetes says how to reach the API server; both empty means what kubectl would take, in-cluster at last.
type Kubernetes struct {
	Kubeconfig string `mapstructure:"kubeconfig"`
	Context    string `mapstructure:"context"`
}

// Resource is one entry of the resources list, as the user wrote it: which streams it comes to is decided by discovery.
type Resource struct {
	Name       string   `mapstructure:"resource"`   // what kubectl takes: pods, deploy, deployments.v1.apps
	Group      *string  `mapstructure:"group"`      // nil: not said; "" is core
	Version    string   `mapstructure:"version"`    // "": the server's preferred version
	Exclude    []string `mapstructure:"exclude"`    // of a wildcard: resources that it does not cover, as kubectl takes them
	Namespaces []string `mapstructure:"namespaces"` // nil: one watch for all
	// ExcludeNamespaces are globs; an object in a namespace that one matches is not written.
	ExcludeNamespaces []string `mapstructure:"excludeNamespaces"`
	LabelSelector     string   `mapstructure:"labelSelector"` // canonical after Load
	FieldSelector     string   `mapstructure:"fieldSelector"` // canonical after Load
	Types             []string `mapstructure:"types"`         // of lines about objects; nil: all three
	Filter            string   `mapstructure:"filter"`        // CEL over object and type; "": everything
	Initial           string   `mapstructure:"initial"`       // Snapshot or Skip
	Payload           string   `mapstructure:"payload"`       // PayloadObject, PayloadMetadata or PayloadNone
	Changes           bool     `mapstructure:"changes"`       // MODIFIED lines say which fields changed
	IgnoreFields      []string `mapstructure:"ignoreFields"`  // dotted paths; a MODIFIED in which nothing else changed is not written

	// Namespace comes from -n: the one namespace of a resource that has namespaces, ignored where it has none (as
	// kubectl does). Only set where Namespaces is nil.
	Namespace string `mapstructure:"-"`

	// File, Line and Entry say where this stands, e.g. kubejournal.yaml, 12 and resources[2]; Line is 0 outside a file.
	File  string `mapstructure:"-"`
	Line  int    `mapstructure:"-"`
	Entry string `mapstructure:"-"`
}

// What to do with the objects that exist at the first sight of a stream.
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

// Wildcard stands for every resource, or every group.
const Wildcard = "*"

// Output is where the lines go.
type Output struct {
	Path string `mapstructure:"path"` // Stdout or a file
	// What becomes of a file that has grown; without effect on Stdout.
	MaxSize  int64         `mapstructure:"maxSize"`  // bytes, then it is rotated; 0: never
	MaxAge   time.Duration `mapstructure:"maxAge"`   // older rotated files go; 0: no limit
	MaxFiles int           `mapstructure:"maxFiles"` // more rotated files go, the oldest first; 0: no limit
	Compress bool          `mapstructure:"compress"` // rotated files, gzip
	Sync     string        `mapstructure:"sync"`     // SyncCommit or SyncNever
	// MaxLineBytes bounds a line: a longer one keeps its metadata only; 0: no limit.
	MaxLineBytes int64 `mapstructure:"maxLineBytes"`
}

// Stdout is the output path that stands for the standard output.
const Stdout = "-"

// When the output file is flushed to the disk.
const (
	SyncCommit = "commit" // before each checkpoint commit
	SyncNever  = "never"  // when the kernel likes
)

// Checkpoint is where positions are kept. An empty Path keeps none: every start begins with a snapshot.
type Checkpoint struct {
	Path     string        `mapstructure:"path"`
	Interval time.Duration `mapstructure:"interval"`
}

// Redact names fields of one resource whose values never leave the process.
type Redact struct {
	Resource string   `mapstructure:"resource"` // what kubectl takes
	Fields   []string `mapstructure:"fields"`   // dotted paths, e.g. data.password

	File  string `mapstructure:"-"`
	Line  int    `mapstructure:"-"`
	Entry string `mapstructure:"-"`
}

// Log is how the daemon's own log, on stderr, looks.
type Log struct {
	Level  string `mapstructure:"level"`  // debug, info, warn or error
	Format string `mapstructure:"format"` // json or console
}

// Default returns the configuration of an empty file. All defaults stand here and nowhere else.
func Default() *Config {
	return &Config{
		Output: Output{
			Path: Stdout, MaxSize: 100 << 20, MaxAge: 7 * 24 * time.Hour, MaxFiles: 10, Compress: true, Sync: SyncCommit,
		},
		Checkpoint:    Checkpoint{Path: "kubejournal.db", Interval: time.Second},
		RedactSecrets: true,
		DropFields:    []string{"metadata.managedFields"},
		Listen:        ":8080",
		Log:           Log{Level: "info", Format: "json"},
	}
}

// withoutFile returns the defaults of a run that names its resources as arguments and no config: a look at the
// cluster on stdout that leaves nothing behind and opens no port unless it is told to.
func withoutFile() *Config {
	c := Default()
	c.Checkpoint.Path = ""
	c.Listen = ""
	return c
}
