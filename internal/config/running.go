package config

import (
	"reflect"
	"slices"
)

// At is a fault of the value of a key, at the place where it was written.
func (c *Config) At(key, msg string) Fault { return c.src.fault("", key, msg) }

// Hash is that of the config file, e.g. sha256:9f86d0...; "" when there is none.
func (c *Config) Hash() string { return c.src.hash }

// Same tells whether two configs say the same, wherever they say it.
func (c *Config) Same(other *Config) bool { return reflect.DeepEqual(c.said(), other.said()) }

// said is a config without the places that its parts stand at.
func (c *Config) said() Config {
	said := *c
	said.src = nil
	said.Resources = slices.Clone(c.Resources)
	for i := range said.Resources {
		r := &said.Resources[i]
		r.File, r.Line, r.Entry = "", 0, ""
	}
	said.Redact = slices.Clone(c.Redact)
	for i := range said.Redact {
		r := &said.Redact[i]
		r.File, r.Line, r.Entry = "", 0, ""
	}
	return said
}

// ListenAddress is where a daemon with the config at path listens, also where the
// file has come to have faults while the daemon runs with what it said before.
func ListenAddress(path string, env Env) (string, error) {
	cfg, err := Load(path, Overrides{}, env)
	if err == nil {
		return cfg.Listen, nil
	}
	for _, o := range Options {
		if address, ok := env(o.Env); o.Key == "listen" && ok && address != "" {
			return address, nil
		}
	}
	data, readErr := readFile(path)
	if readErr != nil {
		return "", err
	}
	doc := document{src: newSource(path)}
	doc.read(data)
	if doc.broken {
		return "", err
	}
	switch address, ok := doc.values["listen"].(string); {
	case ok:
		return address, nil
	case doc.src.isFaulted("listen"):
		return "", err
	}
	return Default().Listen, nil
}
