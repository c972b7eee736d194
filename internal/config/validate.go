package config

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"kubejournal/internal/event"
)

const noResources = "names no resource; list what to journal, e.g. resources: [pods, deployments.apps]"

const (
	// minInterval is a floor below which the daemon would do nothing but commit: each one waits for the disk.
	minInterval = time.Millisecond
	// maxInterval bounds what has to be read back after a crash, or is written twice on stdout.
	maxInterval = time.Hour
	// minSize is a floor below which a file would hold hardly a line: a Pod is a few KiB. It allows for a try by hand.
	minSize = 4 << 10
	// minLineBytes is a floor below which lines would lose their objects and be hardly shorter for it.
	minLineBytes = 1 << 10
)

// Validate returns everything that is wrong, as Faults, or nil. Load has called it already.
func (c *Config) Validate() error {
	return c.check().err()
}

// checker collects faults, except for values that could not be read.
type checker struct {
	src    *source
	faults Faults
}

func (k *checker) add(entry, field, format string, args ...any) {
	f := k.src.fault(entry, field, fmt.Sprintf(format, args...))
	if !k.src.isFaulted(f.path()) {
		k.faults = append(k.faults, f)
	}
}

// each checks the elements of a list. bad returns what is wrong with one, or "".
func (k *checker) each(entry, field string, list []string, bad func(string) string) {
	for i, v := range list {
		if msg := bad(v); msg != "" {
			k.add(entry, fmt.Sprintf("%s[%d]", field, i), "%s", msg)
		}
	}
}

// once extends the check of an element: it refuses one that equals another of its list, by key.
func once[K comparable](key func(string) K, bad func(string) string) func(string) string {
	seen := map[K]bool{}
	return func(v string) string {
		if msg := bad(v); msg != "" {
			return msg
		}
		if k := key(v); seen[k] {
			return fmt.Sprintf("%q is listed twice; keep one", v)
		} else {
			seen[k] = true
		}
		return ""
	}
}

func itself(v string) string { return v }

func (k *checker) oneOf(entry, field, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		k.add(entry, field, "%s", notOneOf(value, allowed))
	}
}

func notOneOf(value string, allowed []string) string {
	last := len(allowed) - 1
	return fmt.Sprintf("%q is not known; write %s or %s", value, strings.Join(allowed[:last], ", "), allowed[last])
}

func (c *Config) check() Faults {
	k := &checker{src: c.src}
	if len(c.Resources) == 0 {
		k.add("", "resources", noResources)
	}
	for _, r := range c.Resources {
		k.resource(r)
	}
	k.duplicates(c.Resources)
	k.output(c.Output)
	k.checkpoint(c.Checkpoint, c.Output)
	for i, r := range c.Redact {
		k.redact(fmt.Sprintf("redact[%d]", i), r)
	}
	k.each("", "dropFields", c.DropFields, func(p string) string { return badPath(event.Shape{Drop: []string{p}}) })
	k.listen(c.Listen)
	k.oneOf("", "log.level", c.Log.Level, "debug", "info", "warn", "error")
	k.oneOf("", "log.format", c.Log.Format, "json", "console")
	return k.faults
}

func (k *checker) output(out Output) {
	if out.Path == "" {
		k.add("", "output.path", `is empty; name a file, or "-" for stdout`)
	}
	if out.MaxSize != 0 && out.MaxSize < minSize {
		k.add("", "output.maxSize", "%dB is too small; write at least 4KiB, such as 100MiB, or 0 never to rotate", out.MaxSize)
	}
	if out.MaxAge < 0 {
		k.add("", "output.maxAge", "%s is negative; write e.g. 168h for a week, or 0 for no limit", out.MaxAge)
	}
	if out.MaxFiles < 0 {
		k.add("", "output.maxFiles", "%d is negative; write e.g. 10, or 0 for no limit", out.MaxFiles)
	}
	if out.MaxLineBytes != 0 && out.MaxLineBytes < minLineBytes {
		k.add("", "output.maxLineBytes", "%dB is too small; write at least 1KiB, such as 16KiB, or 0 for no limit", out.MaxLineBytes)
	}
	k.oneOf("", "output.sync", out.Sync, SyncCommit, SyncNever)
}

func (k *checker) checkpoint(cp Checkpoint, out Output) {
	switch {
	case cp.Path == Stdout:
		k.add("", "checkpoint.path", `"-" is not a file; name one, or "" to keep no checkpoint`)
	case cp.Path != "" && out.Path != "" && samePath(out.Path, cp.Path):
		k.add("", "checkpoint.path", "is also output.path; the checkpoint needs a file of its own")
	}
	switch {
	case cp.Interval < minInterval:
		k.add("", "checkpoint.interval", "%s is too short; write at least %s, such as 1s", cp.Interval, minInterval)
	case cp.Interval > maxInterval:
		k.add("", "checkpoint.interval", "%s is too long; write at most 1h, such as 1s", cp.Interval)
	}
}

// samePath compares by name only: whether two names lead to one file can change until the daemon opens them.
func samePath(a, b string) bool {
	absA, errA := filepath.Abs(a)
	absB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && absA == absB
}

func (k *checker) listen(addr string) {
	if addr == "" {
		return
	}
	_, port, err := net.SplitHostPort(addr)
	n, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil:
		k.add("", "listen", `%q is not an address; write host:port such as ":8080", or "" to listen nowhere`, addr)
	case portErr != nil:
		k.add("", "listen", `%q has no port between 0 and 65535; write host:port such as ":8080"`, addr)
	case n == 0 && addr[0] == ':':
		k.add("", "listen", `%q would open an unknown port on every interface; name one such as ":8080"`, addr)
	}
}

func (k *checker) redact(entry string, r Redact) {
	switch {
	case r.Resource == "":
		k.add(entry, "resource", "is missing; name what to redact, e.g. resource: configmaps")
	case strings.Contains(r.Resource, Wildcard):
		k.add(entry, "resource", "%q: wildcards are not supported here; write one entry for each resource", r.Resource)
	default:
		if msg := badName(r.Resource); msg != "" {
			k.add(entry, "resource", "%s", msg)
		}
	}
	if len(r.Fields) == 0 {
		k.add(entry, "fields", "names no field; write e.g. fields: [data.password]")
	}
	k.each(entry, "fields", r.Fields, func(p string) string { return badPath(event.Shape{Redact: []string{p}}) })
}

// badPath returns what is wrong with the path of a field, or "". The rules are those of the code that removes it.
func badPath(shape event.Shape) string {
	if err := shape.Validate(); err != nil {
		return fmt.Sprintf(`%v; write dotted keys, e.g. metadata.managedFields or metadata.annotations["a.b/c"]`, err)
	}
	return ""
}
