package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/viper"
)

// maxFileBytes bounds what is read: a config is written by hand or by a template, and a wrong path may be a device.
const maxFileBytes = 1 << 20

// Load reads the config file at path, puts environment and command line over it and checks the result. With an empty
// path there is no file: the resources come from the overrides. The error is Faults, complete.
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

// Read returns what the config file at path holds. The error is Faults.
func Read(path string) ([]byte, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, Faults{{File: path, Msg: err.Error()}}
	}
	return data, nil
}

// readFile says what is wrong in words that need no path: the caller's fault names it.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the path is the user's own
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errors.New("no such file; name the config with --config")
		}
		return nil, fmt.Errorf("cannot be read: %w", cause(err))
	}
	defer f.Close() //nolint:errcheck // only read from
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", cause(err))
	}
	if info.IsDir() {
		return nil, errors.New("is a directory; name the file in it")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", cause(err))
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("is larger than %d bytes; is this the config?", maxFileBytes)
	}
	return data, nil
}

// cause strips operation and path from an error of the file system.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Parse is Load of a file that was read before. Values meet in viper, where a later source wins: defaults, then the file, then
// the environment, then the flags. Everything that can be wrong was found before, in the document's own terms.
func Parse(data []byte, file string, o Overrides, env Env) (*Config, error) {
	doc := document{src: newSource(file)}
	defaults := withoutFile()
	if file != "" {
		defaults = Default()
		doc.read(data)
		if doc.broken {
			return nil, doc.faults.err()
		}
	}

	v := viper.New()
	for _, s := range settings("", reflect.ValueOf(*defaults)) {
		v.SetDefault(s.key, s.value)
	}
	if err := v.MergeConfigMap(doc.values); err != nil {
		return nil, fmt.Errorf("merge config: %w", err)
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
	cfg := &Config{}
	if err := v.UnmarshalExact(cfg); err != nil {
		return nil, Faults{{File: file, Msg: err.Error()}}
	}
	cfg.src = doc.src
	if file != "" {
		cfg.src.hash = fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	}

	cfg.place()
	if len(o.Resources) > 0 {
		cfg.takeArguments(o.Resources)
	}
	faults := slices.Concat(doc.faults, cfg.expand(env))
	faults = append(faults, cfg.takeNamespace(o.Namespace, env)...)
	faults = append(faults, cfg.check()...)
	if err := faults.err(); err != nil {
		return nil, err
	}
	cfg.canonicalise()
	return cfg, nil
}

// setting is one leaf of a Config: its dotted key and its value.
type setting struct {
	key   string
	value any
}

// settings lists the leaves of a Config that have a value to offer.
func settings(prefix string, v reflect.Value) []setting {
	var out []setting
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("mapstructure")
		if key == "" || key == "-" {
			continue
		}
		field := v.Field(i)
		switch {
		case field.Kind() == reflect.Struct:
			out = append(out, settings(prefix+key+".", field)...)
		case field.Kind() == reflect.Slice && field.IsNil():
		default:
			out = append(out, setting{prefix + key, field.Interface()})
		}
	}
	return out
}

// place tells each entry where it stands and fills in what an entry leaves out.
func (c *Config) place() {
	for i := range c.Resources {
		r := &c.Resources[i]
		r.Entry = fmt.Sprintf("resources[%d]", i)
		r.File, r.Line = c.src.file, c.src.lines[r.Entry]
		if r.Initial == "" && !c.src.isFaulted(r.Entry+".initial") {
			r.Initial = Snapshot
		}
		if r.Payload == "" && !c.src.isFaulted(r.Entry+".payload") {
			r.Payload = PayloadObject
		}
	}
	for i := range c.Redact {
		r := &c.Redact[i]
		r.Entry = fmt.Sprintf("redact[%d]", i)
		r.File, r.Line = c.src.file, c.src.lines[r.Entry]
	}
}

// takeArguments puts the command line's resources in place of the file's. kubectl takes a list with commas too.
func (c *Config) takeArguments(args []string) {
	c.Resources = nil
	for i, arg := range args {
		for name := range strings.SplitSeq(arg, ",") {
			r := Resource{Name: name, Initial: Snapshot, Payload: PayloadObject, File: "command line", Entry: fmt.Sprintf("argument %d", i+1)}
			c.src.from[r.Entry], c.src.short[r.Entry] = r.File, true
			c.Resources = append(c.Resources, r)
		}
	}
}

// takeNamespace puts the one namespace of -n on every entry that names none of its own.
func (c *Config) takeNamespace(namespace string, env Env) Faults {
	from := "--namespace"
	if namespace == "" {
		namespace, _ = env(NamespaceEnv)
		from = NamespaceEnv
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
