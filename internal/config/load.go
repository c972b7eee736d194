package config

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/viper"

	"kubejournal/internal/host/disk"
)

// maxFileBytes bounds what is read: a config is written by hand or by a template, and a wrong path may be a device.
const maxFileBytes = 1 << 20

// Option is a key of the config that a flag and an environment variable set too.
type Option struct {
	Key  string // dotted key of the file
	Flag string // without the dashes
	Env  string
}

// Options lists them all. The command line derives its flags from it.
var Options = []Option{
	{Key: "kubernetes.kubeconfig", Flag: "kubeconfig", Env: "KUBEJOURNAL_KUBECONFIG"},
	{Key: "kubernetes.context", Flag: "context", Env: "KUBEJOURNAL_CONTEXT"},
	{Key: "output.path", Flag: "output", Env: "KUBEJOURNAL_OUTPUT"},
	{Key: "checkpoint.path", Flag: "checkpoint", Env: "KUBEJOURNAL_CHECKPOINT"},
	{Key: "listen", Flag: "listen", Env: listenEnv},
	{Key: "log.level", Flag: "log-level", Env: "KUBEJOURNAL_LOG_LEVEL"},
}

// namespaceEnv is the variable behind -n, which belongs to no single key.
const namespaceEnv = "KUBEJOURNAL_NAMESPACE"

const listenEnv = "KUBEJOURNAL_LISTEN"

// Env looks up a variable, as os.LookupEnv does.
type Env func(name string) (value string, ok bool)

// Overrides are the arguments and flags of the command line.
type Overrides struct {
	Flags     map[string]string // name of a flag in Options -> its value; only the flags that were given
	Namespace string            // -n; "" when not given
	Resources []string          // arguments: they take the place of the file's resources
	Changes   *bool             // --changes: defaults.changes; nil when not given
}

// Load reads the config file at path, applies environment and command line and checks the result. With an empty path
// there is no file: the resources come from the overrides. The error is Faults, complete.
func Load(path string, o Overrides, env Env) (*Config, error) {
	if path == "" {
		return Parse(nil, path, o, env)
	}
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(data, path, o, env)
}

// Read returns the content of the config file at path. The error is Faults.
func Read(path string) ([]byte, error) {
	var data []byte
	f, err := os.Open(path) //nolint:gosec // the path is the user's own
	if err == nil {
		defer f.Close() //nolint:errcheck // only read from
		data, err = io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err // the fault names the path
	}
	var msg string
	switch {
	case errors.Is(err, fs.ErrNotExist):
		msg = "no such file; name the config with --config"
	case errors.Is(err, syscall.EISDIR):
		msg = "is a directory; name the file in it"
	case err != nil:
		msg = "cannot be read: " + err.Error()
	case len(data) > maxFileBytes:
		msg = fmt.Sprintf("is larger than %d bytes; is this the config?", maxFileBytes)
	default:
		return data, nil
	}
	return nil, Faults{{File: disk.Absolute(path), Msg: msg}} // it may be looked for in the wrong folder
}

// Parse does what Load does, with bytes already read.
func Parse(data []byte, file string, o Overrides, env Env) (*Config, error) {
	cfg, faults, err := draft(data, file, o, env)
	if err == nil {
		err = faults.err()
	}
	if err != nil {
		return nil, err
	}
	cfg.canonicalise()
	return cfg, nil
}

// Draft returns what can be read of a config file that has faults, for what else there is to say about it; nil if that
// is nothing.
func Draft(path string, o Overrides, env Env) *Config {
	data, err := Read(path)
	if err != nil {
		return nil
	}
	cfg, _, _ := draft(data, path, o, env) // Load has said what is wrong
	return cfg
}

func draft(data []byte, file string, o Overrides, env Env) (*Config, Faults, error) {
	cfg, faults, err := decode(data, file, o, env)
	if err != nil {
		return nil, nil, err
	}
	cfg.place(o.Resources)
	return cfg, slices.Concat(faults, cfg.expand(env), cfg.setNamespace(o.Namespace, env), cfg.check()), nil
}

// decode reads the values. viper merges them, a later source over an earlier one: defaults, the file, the environment,
// the flags. Faults are those of the file's text, which leave the default; an error says that it cannot be read at all.
func decode(data []byte, file string, o Overrides, env Env) (*Config, Faults, error) {
	cfg := Default()
	doc := document{env: env, src: source{
		file: file, lines: map[string]int{}, from: map[string]string{}, short: map[string]bool{},
		faulted: map[string]bool{},
	}}
	if file == "" { // resources are arguments: to stdout, with no position stored and no port open
		cfg.Checkpoint.Path, cfg.Listen = "", ""
		cfg.Defaults.Changes = true // who watches wants to see them
	} else {
		doc.src.hash = fmt.Sprintf("sha256:%x", sha256.Sum256(data))
		doc.read(data)
		if doc.broken {
			return nil, nil, doc.faults.err()
		}
	}
	v := viper.New()
	if err := v.MergeConfigMap(doc.values); err != nil {
		return nil, nil, fmt.Errorf("merge config: %w", err)
	}
	for _, opt := range Options {
		// An empty variable counts as unset, as everywhere in viper: deployments pass empty ones along.
		if value, ok := env(opt.Env); ok && value != "" {
			v.Set(opt.Key, value)
			doc.src.from[opt.Key] = opt.Env
		}
		if value, ok := o.Flags[opt.Flag]; ok {
			v.Set(opt.Key, value)
			doc.src.from[opt.Key] = "--" + opt.Flag
		}
	}
	if o.Changes != nil {
		v.Set("defaults.changes", *o.Changes)
		doc.src.from["defaults.changes"] = "--changes"
	}
	if err := v.UnmarshalExact(cfg); err != nil { // leaves the default of a key that is not set
		return nil, nil, Faults{{File: file, Msg: err.Error()}}
	}
	cfg.src = doc.src
	return cfg, doc.faults, nil
}

// place sets where each entry was written, and the defaults of what it leaves out. Resources from the command line
// replace those of the file; kubectl takes a list with commas too.
func (c *Config) place(args []string) {
	for i := range c.Redact {
		r := &c.Redact[i]
		r.Entry = fmt.Sprintf("redact[%d]", i)
		r.File, r.Line = c.src.file, c.src.lines[r.Entry]
	}
	if len(args) > 0 {
		c.Resources = nil
	}
	for i := range c.Resources {
		r := &c.Resources[i]
		r.Entry = fmt.Sprintf("resources[%d]", i)
		r.File, r.Line = c.src.file, c.src.lines[r.Entry]
		c.inherit(r)
	}
	for i, arg := range args {
		entry := fmt.Sprintf("argument %d", i+1)
		c.src.from[entry], c.src.short[entry] = CommandLine, true
		for name := range strings.SplitSeq(arg, ",") {
			r := Resource{Name: name, File: CommandLine, Entry: entry}
			c.inherit(&r)
			c.Resources = append(c.Resources, r)
		}
	}
}

// inherit gives an entry the default of each key that it does not set. Its lists are its own: they are changed in
// place.
func (c *Config) inherit(r *Resource) {
	entry, defaults := reflect.ValueOf(r).Elem(), reflect.ValueOf(c.Defaults)
	for key, f := range keysOf(defaults.Type()) {
		if _, set := c.src.lines[join(r.Entry, key)]; set {
			continue
		}
		value := defaults.FieldByIndex(f.Index)
		if list, ok := value.Interface().([]string); ok {
			value = reflect.ValueOf(slices.Clone(list))
		}
		entry.FieldByIndex(f.Index).Set(value)
	}
	r.Initial, r.Payload = cmp.Or(r.Initial, c.Defaults.Initial), cmp.Or(r.Payload, c.Defaults.Payload)
}

// Inherited says how many entries take each default that the file sets, such as "changes in 3"; "" if it sets none.
func (c *Config) Inherited() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(keysOf(reflect.TypeFor[Defaults]()))) {
		if _, set := c.src.lines[join("defaults", key)]; !set {
			continue
		}
		n := 0
		for _, r := range c.Resources {
			if c.src.inherits(r.Entry, key) {
				n++
			}
		}
		all = append(all, fmt.Sprintf("%s in %d", key, n))
	}
	return strings.Join(all, ", ")
}

// setNamespace sets the one namespace of -n on every entry that names none of its own.
func (c *Config) setNamespace(namespace string, env Env) Faults {
	from := "--namespace"
	if namespace == "" {
		namespace, _ = env(namespaceEnv)
		from = namespaceEnv
	}
	if namespace == "" {
		return nil
	}
	if msg := badNamespace(namespace); msg != "" {
		return Faults{{File: from, Msg: msg}}
	}
	for i := range c.Resources {
		if c.Resources[i].Namespaces == nil {
			c.Resources[i].Namespace = namespace
		}
	}
	return nil
}

// expand puts the environment's values in place of $(NAME) in selectors and namespaces, included or excluded. The
// form and its escape, $$(NAME) for a literal $(NAME), are those of a container's env in a pod.
func (c *Config) expand(env Env) Faults {
	var faults Faults
	entries := []*Resource{(*Resource)(&c.Defaults)}
	for i := range c.Resources {
		entries = append(entries, &c.Resources[i])
	}
	for _, r := range entries {
		put := func(field string, value *string) {
			expanded, msg := expandOne(*value, env)
			if msg == "" {
				*value = expanded
				return
			}
			f := c.Fault(r.Entry, field, msg)
			if !c.src.faulted[f.Path] { // a default is that of many
				faults = append(faults, f)
			}
			c.src.faulted[f.Path] = true
		}
		put("labelSelector", &r.LabelSelector)
		put("fieldSelector", &r.FieldSelector)
		for j := range r.Namespaces {
			put(fmt.Sprintf("namespaces[%d]", j), &r.Namespaces[j])
		}
		for j := range r.ExcludeNamespaces {
			put(fmt.Sprintf("excludeNamespaces[%d]", j), &r.ExcludeNamespaces[j])
		}
	}
	return faults
}

// expandOne returns the text with its variables replaced, or what is wrong with one of them.
func expandOne(text string, env Env) (expanded, fault string) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$(")
		name, after, closed := strings.Cut(rest, ")")
		escaped := found && strings.HasSuffix(before, "$")
		if escaped {
			before = strings.TrimSuffix(before, "$")
		}
		before, fault = literal(before)
		value, set := env(name)
		switch {
		case fault != "":
			return "", fault
		case !found:
			b.WriteString(before)
			return b.String(), ""
		case !closed:
			return "", fmt.Sprintf("%q has no closing bracket; write $(NAME)", "$("+rest)
		case escaped:
			b.WriteString(before + "$(" + name + ")")
		case name == "":
			return "", "$() names no variable; write $(NAME)"
		case !set:
			return "", fmt.Sprintf(
				"$(%s) is not set in the environment; set it, or write $$(%s) for the text itself", name, name,
			)
		default:
			b.WriteString(before + value)
		}
		text = after
	}
}

// placeholder matches what a shell, a template or another program would replace, and nothing replaces here. The group
// is the variable.
var placeholder = regexp.MustCompile(
	`\$?(?:\$\{\W*(?:env:)?(\w*)[^}]*\}?|\$([A-Za-z_]\w*)|\{\{.*?\}\}|%([A-Za-z_]\w*)%)`)

// variable matches what is replaced, where it is.
var variable = regexp.MustCompile(`\$\([^)]*\)?`)

// literal returns text without variables, in which $$NAME and $${NAME} stand for $NAME and ${NAME}. Any other
// placeholder is a fault.
func literal(text string) (is, fault string) {
	is = placeholder.ReplaceAllStringFunc(text, func(found string) string {
		if rest, escaped := strings.CutPrefix(found, "$$"); escaped {
			return "$" + rest
		}
		fault = cmp.Or(fault, notReplaced(found))
		return found
	})
	return is, fault
}

func notReplaced(found string) string {
	name := cmp.Or(cmp.Or(placeholder.FindStringSubmatch(found)[1:]...), "NAME")
	msg := fmt.Sprintf("%s is not replaced here; write $(%s) for the value of an environment variable", found, name)
	if strings.HasPrefix(found, "$") {
		msg += fmt.Sprintf(", or $%s for the text itself", found)
	}
	return msg
}

// ListenAddress returns where a daemon with the config at path listens. It does so also where the file has faults now,
// while the daemon runs with an earlier version of it.
func ListenAddress(path string, env Env) (string, error) {
	if address, ok := env(listenEnv); ok && address != "" {
		return address, nil
	}
	data, err := Read(path)
	if err != nil {
		return "", err
	}
	cfg, faults, err := decode(data, path, Overrides{}, env)
	switch {
	case err != nil:
		return "", err
	case cfg.src.faulted["listen"]:
		return "", faults.err()
	}
	return cfg.Listen, nil
}
