package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"kubejournal/internal/format/object"
	"kubejournal/internal/host/disk"
)

const noResources = "names no resource; list what to journal, e.g. resources: [pods, deployments.apps]"

const (
	minRetryPeriod = 100 * time.Millisecond // each is a write to the API server
	// no failed leader is missed for longer; a Lease has the seconds in 32 bits
	maxLeaseDuration = 24 * time.Hour
	// below, the daemon would do nothing but commit: each one waits for the disk
	minInterval = time.Millisecond
	// bounds what has to be read back after a crash, or is written twice on stdout
	maxInterval = time.Hour
	// below, a file would hold hardly a line: a Pod is a few KiB. It allows for a try by hand
	minSize      = 4 << 10
	maxShards    = 1024    // above, a shard of a million objects has less than a page of a list
	minLineBytes = 1 << 10 // below, lines would lose their objects and be hardly shorter for it
)

// checker collects the faults of a Config, except for values that could not be read.
type checker struct {
	*Config
	faults Faults
}

// refuse adds a fault if the value is bad, once: entries share the defaults.
func (k *checker) refuse(bad bool, entry, field, format string, args ...any) {
	if !bad {
		return
	}
	f := k.Fault(entry, field, fmt.Sprintf(format, args...))
	if !around(k.src.faulted, f.Path) && !slices.Contains(k.faults, f) {
		k.faults = append(k.faults, f)
	}
}

// each checks the elements of a list. bad returns what is wrong with one, or "".
func (k *checker) each(entry, field string, list []string, bad func(string) string) {
	for i, v := range list {
		msg := bad(v)
		k.refuse(msg != "", entry, fmt.Sprintf("%s[%d]", field, i), "%s", msg)
	}
}

// once extends the check of an element: it refuses one that equals another of its list, by key.
func once[K comparable](key func(string) K, bad func(string) string) func(string) string {
	seen := map[K]bool{}
	return func(v string) string {
		msg := bad(v)
		if msg == "" && seen[key(v)] {
			msg = fmt.Sprintf("%q is listed twice; keep one", v)
		}
		seen[key(v)] = true
		return msg
	}
}

func itself(v string) string { return v }

func (k *checker) oneOf(entry, field, value string, allowed ...string) {
	k.refuse(!slices.Contains(allowed, value), entry, field, "%s", notOneOf(value, allowed))
}

func notOneOf(value string, allowed []string) string {
	last := len(allowed) - 1
	return fmt.Sprintf("%q is not known; write %s or %s", value, strings.Join(allowed[:last], ", "), allowed[last])
}

// check returns everything that is wrong.
func (c *Config) check() Faults {
	k := &checker{Config: c}
	k.refuse(len(c.Resources) == 0, "", "resources", noResources)
	k.resource(Resource(c.Defaults))
	for _, r := range c.Resources {
		k.names(r)
		k.resource(r)
	}
	k.duplicates()
	k.literals()
	k.shard(c.Shard)
	k.leaderElection(c.LeaderElection)
	k.output(c.Output)
	k.audit(c.Audit)
	k.checkpoint(c.Checkpoint)
	for _, r := range c.Redact {
		k.redact(r)
	}
	k.each("", "dropFields", c.DropFields, func(p string) string { return badPath(object.Shape{Drop: []string{p}}) })
	k.listen(c.Listen)
	k.oneOf("", "log.level", c.Log.Level, "debug", "info", "warn", "error")
	k.oneOf("", "log.format", c.Log.Format, "json", "console")
	return k.faults
}

// literals refuses placeholders in keys in which nothing is replaced: a file or a Lease of such a name helps nobody.
func (k *checker) literals() {
	for key, value := range map[string]string{
		"cluster": k.Cluster, "kubernetes.kubeconfig": k.Kubernetes.Kubeconfig,
		"kubernetes.context": k.Kubernetes.Context,
		"output.path":        k.Output.Path, "checkpoint.path": k.Checkpoint.Path, "listen": k.Listen,
		"leaderElection.leaseName":      k.LeaderElection.LeaseName,
		"leaderElection.leaseNamespace": k.LeaderElection.LeaseNamespace,
	} {
		found := cmp.Or(placeholder.FindString(value), variable.FindString(value))
		if _, elsewhere := k.src.from[key]; found == "" || elsewhere { // a shell has replaced what it replaces
			continue
		}
		remedy := "write the value itself"
		if i := slices.IndexFunc(Options, func(o Option) bool { return o.Key == key }); i >= 0 {
			remedy += fmt.Sprintf(", or set --%s or %s", Options[i].Flag, Options[i].Env)
		}
		f := k.Fault("", key, fmt.Sprintf("%s is not replaced here; %s", found, remedy))
		k.src.faulted[f.Path] = true
		k.faults = append(k.faults, f)
	}
}

func (k *checker) shard(s Shard) {
	_, indexed := k.src.lines["shard.index"]
	_, counted := k.src.lines["shard.count"]
	switch {
	case s.Count < 0 || s.Count > maxShards:
		k.refuse(
			true, "", "shard.count", "%d is not between 0 and %d; write how many daemons share the objects, such as 4",
			s.Count, maxShards,
		)
	case indexed && !counted, s.Index > 0 && s.Count == 0:
		k.refuse(true, "", "shard.index", "needs shard.count; write how many daemons share the objects, such as 4")
	case counted && !indexed && s.Count > 1:
		k.refuse(
			true, "", "shard.index",
			"is missing; each of the daemons that share the objects has its own, from 0 to %d, or $(NAME) for the one in a variable",
			s.Count-1,
		)
	default:
		last := max(s.Count-1, 0)
		k.refuse(s.Index < 0 || s.Index > last, "", "shard.index",
			"%d is not between 0 and %d; the daemons that share the objects count from 0 on, below shard.count", s.Index, last)
	}
}

// leaderElection checks what client-go's election would refuse, and what would let two replicas write at once: it cuts
// leaseDuration to whole seconds.
func (k *checker) leaderElection(l LeaderElection) {
	if l.LeaseName != "" {
		bad := validation.IsDNS1123Subdomain(k.Lease())
		k.refuse(
			len(bad) > 0, "", "leaderElection.leaseName",
			"%q is not the name of a Lease; it takes lower-case letters, digits, - and ., at most 253", l.LeaseName,
		)
	}
	k.refuse(l.LeaseNamespace != "" && len(
		validation.IsDNS1123Label(l.LeaseNamespace),
	) > 0, "", "leaderElection.leaseNamespace",
		"%q is not the name of a namespace; it takes lower-case letters, digits and -, at most 63", l.LeaseNamespace)
	k.refuse(
		l.RetryPeriod < minRetryPeriod, "", "leaderElection.retryPeriod",
		"%s is too short; write at least %s, such as 2s", l.RetryPeriod, minRetryPeriod,
	)
	k.refuse(l.RenewDeadline <= l.RetryPeriod*6/5, "", "leaderElection.renewDeadline",
		"%s is not longer than 1.2 times retryPeriod (%s); write e.g. 10s with a retryPeriod of 2s", l.RenewDeadline, l.RetryPeriod)
	k.refuse(l.LeaseDuration <= l.RenewDeadline, "", "leaderElection.leaseDuration",
		"%s is not longer than renewDeadline (%s); write e.g. 15s with a renewDeadline of 10s", l.LeaseDuration, l.RenewDeadline)
	k.refuse(l.LeaseDuration > maxLeaseDuration, "", "leaderElection.leaseDuration",
		"%s is too long; write at most %s, such as 15s", l.LeaseDuration, maxLeaseDuration)
	k.refuse(l.LeaseDuration%time.Second != 0, "", "leaderElection.leaseDuration",
		"%s is not in whole seconds, as a Lease has it; write e.g. 15s", l.LeaseDuration)
}

func (k *checker) output(out Output) {
	k.refuse(out.Path == "", "", "output.path", `is empty; name a file, or "-" for stdout`)
	k.refuse(out.MaxSize != 0 && out.MaxSize < minSize, "", "output.maxSize",
		"%dB is too small; write at least 4KiB, such as 100MiB, or 0 never to rotate", out.MaxSize)
	k.refuse(
		out.MaxAge < 0, "", "output.maxAge", "%s is negative; write e.g. 7d for a week, or 0 for no limit", out.MaxAge,
	)
	k.refuse(out.MaxFiles < 0, "", "output.maxFiles", "%d is negative; write e.g. 10, or 0 for no limit", out.MaxFiles)
	k.refuse(
		out.MinAge < 0, "", "output.minAge",
		"%s is negative; write e.g. 24h, or 0 to remove the oldest files whatever their age", out.MinAge,
	)
	k.refuse(out.MaxLineBytes != 0 && out.MaxLineBytes < minLineBytes, "", "output.maxLineBytes",
		"%dB is too small; write at least 1KiB, such as 16KiB, or 0 for no limit", out.MaxLineBytes)
	k.oneOf("", "output.sync", out.Sync, SyncCommit, SyncNever)
}

func (k *checker) audit(a Audit) {
	k.refuse(len(a.Paths) > 0 && k.Output.Path == Stdout, "", "audit.paths",
		"needs a journal file: what is known of its lines is written beside it; set output.path, or remove audit.paths")
	k.each("", "audit.paths", a.Paths, once(itself, func(p string) string {
		if _, err := filepath.Match(p, ""); p == "" || err != nil {
			return fmt.Sprintf("%q is not a pattern of files; write e.g. /var/log/kubernetes/audit*.log*", p)
		}
		if found := cmp.Or(placeholder.FindString(p), variable.FindString(p)); found != "" {
			return found + " is not replaced here; write the value itself"
		}
		return ""
	}))
}

func (k *checker) checkpoint(c Checkpoint) {
	k.refuse(c.Path == Stdout, "", "checkpoint.path", `"-" is not a file; name one, or "" to keep no checkpoint`)
	k.refuse(c.Path != "" && c.Path != Stdout && k.Output.Path != "" && samePath(k.Output.Path, c.Path), "", "checkpoint.path",
		"is also output.path; the checkpoint needs a file of its own")
	k.refuse(
		c.Interval < minInterval, "", "checkpoint.interval", "%s is too short; write at least %s, such as 1s",
		c.Interval, minInterval,
	)
	k.refuse(
		c.Interval > maxInterval, "", "checkpoint.interval", "%s is too long; write at most 1h, such as 1s", c.Interval,
	)
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
	k.refuse(
		err != nil, "", "listen", `%q is not an address; write host:port such as ":8080", or "" to listen nowhere`,
		addr,
	)
	k.refuse(
		err == nil && portErr != nil, "", "listen",
		`%q has no port between 0 and 65535; write host:port such as ":8080"`, addr,
	)
	k.refuse(err == nil && portErr == nil && n == 0 && addr[0] == ':', "", "listen",
		`%q would open an unknown port on every interface; name one such as ":8080"`, addr)
}

func (k *checker) redact(r Redact) {
	msg := "is missing; name what to redact, e.g. resource: configmaps"
	if r.Resource != "" {
		msg = badExactName(r.Resource, "entry")
	}
	k.refuse(msg != "", r.Entry, "resource", "%s", msg)
	k.refuse(len(r.Fields) == 0, r.Entry, "fields", "names no field; write e.g. fields: [data.password]")
	k.each(r.Entry, "fields", r.Fields, func(p string) string { return badPath(object.Shape{Redact: []string{p}}) })
}

// badPath returns what is wrong with the path of a field, or "". The rules are those of the code that removes it.
func badPath(shape object.Shape) string {
	if err := shape.Validate(); err != nil {
		return fmt.Sprintf(`%v; write dotted keys, e.g. metadata.managedFields or metadata.annotations["a.b/c"]`, err)
	}
	return ""
}

// Unwritable warns of files that could not be written here. The daemon may run elsewhere.
func (c *Config) Unwritable() (warnings Faults) {
	for _, file := range []struct{ key, path string }{{"output.path", c.Output.Path},
		{"checkpoint.path", c.Checkpoint.Path}} {
		if file.path == "" || file.path == Stdout {
			continue
		}
		if err := disk.CheckWritable(file.path); err != nil {
			remedy := "name another file"
			if errors.Is(err, fs.ErrNotExist) {
				remedy = "create the folder, as run makes none, or " + remedy
			}
			warnings = append(warnings,
				c.At(file.key, fmt.Sprintf("warning: cannot be written here: %v; %s", err, remedy)))
		}
	}
	return warnings
}
