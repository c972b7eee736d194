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
	// minInterval is a floor under which commits would be all that happens: each one waits for the disk.
	minInterval = time.Millisecond
	// maxInterval bounds what a crash leaves to be read back, or on stdout to be written twice.
	maxInterval = time.Hour
	// minSize is a floor under which a file would hold hardly a line: a Pod is a few KiB. It allows for a try by hand.
	minSize = 4 << 10
	// minLineBytes is a floor under which lines would lose their objects and be hardly shorter for it.
	minLineBytes = 1 << 10
)

// Validate reports everything that is wrong, as Faults, or nil. Load has called it already.
func (c *Config) Validate() error {
	return c.check().err()
}

// checker collects faults and passes over what reading found wrong before.
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

func (c *Config) check() Faults {
	k := &checker{src: c.src}
	if len(c.Resources) == 0 {
		k.add("", "resources", noResources)
	}
	for _, r := range c.Resources {
		k.resource(r)
	}
	k.duplicates(c.Resources)
	k.output(c.Output, c.Checkpoint)
	k.redact(c.Redact)
	for i, path := range c.DropFields {
		if msg := badPath(event.Shape{Drop: []string{path}}); msg != "" {
			k.add("", fmt.Sprintf("dropFields[%d]", i), "%s", msg)
		}
	}
	k.listen(c.Listen)
	k.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	k.oneOf("log.format", c.Log.Format, "json", "console")
	return k.faults
}

func (k *checker) oneOf(field, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		k.add("", field, "%s", notOneOf(value, allowed))
	}
}

func notOneOf(value string, allowed []string) string {
	last := len(allowed) - 1
	return fmt.Sprintf("%q is not known; write %s or %s", value, strings.Join(allowed[:last], ", "), allowed[last])
}

func (k *checker) output(out Output, cp Checkpoint) {
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
	k.oneOf("output.sync", out.Sync, SyncCommit, SyncNever)
	if cp.Path == Stdout {
		k.add("", "checkpoint.path", `"-" is no file; name one, or "" to keep no checkpoint`)
	} else if cp.Path != "" && out.Path != "" && samePath(out.Path, cp.Path) {
		k.add("", "checkpoint.path", "is the file of output.path too; the checkpoint needs a file of its own")
	}
	switch {
	case cp.Interval < minInterval:
		k.add("", "checkpoint.interval", "%s is too short; write at least %s, such as 1s", cp.Interval, minInterval)
	case cp.Interval > maxInterval:
		k.add("", "checkpoint.interval", "%s is too long; write at most 1h, such as 1s", cp.Interval)
	}
}

// samePath compares by name alone: whether two names lead to one file can change until the daemon opens them.
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
	if err != nil {
		k.add("", "listen", `%q is not an address; write host:port such as ":8080", or "" to listen nowhere`, addr)
		return
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		k.add("", "listen", "%q has no port between 0 and 65535; write host:port such as \":8080\"", addr)
	} else if n == 0 && addr[0] == ':' {
		k.add("", "listen", "%q would open a port that nobody knows on every interface; name one such as \":8080\"", addr)
	}
}

func (k *checker) redact(entries []Redact) {
	for i, r := range entries {
		entry := fmt.Sprintf("redact[%d]", i)
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
		for j, path := range r.Fields {
			if msg := badPath(event.Shape{Redact: []string{path}}); msg != "" {
				k.add(entry, fmt.Sprintf("fields[%d]", j), "%s", msg)
			}
		}
	}
}

// badPath returns what is wrong with the path of a field, or "". The rules are those of the code that cuts it out.
func badPath(shape event.Shape) string {
	if err := shape.Validate(); err != nil {
		return fmt.Sprintf(`%v; write dotted keys, e.g. metadata.managedFields or metadata.annotations["a.b/c"]`, err)
	}
	return ""
}
