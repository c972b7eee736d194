package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"kubejournal/internal/config"
)

// configEnv is the variable behind --config.
const configEnv = "KUBEJOURNAL_CONFIG"

// searched is where a config is looked for when none is named; the first that exists is taken.
var searched = []string{"./kubejournal.yaml", "/etc/kubejournal/kubejournal.yaml"}

// configPath returns the config file to read: the flag's, else the variable's, else the first of the searched ones.
// It returns "" where arguments name the resources and nobody names a file.
func configPath(flag string, args []string, env config.Env) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if path, _ := env(configEnv); path != "" {
		return path, nil
	}
	if len(args) > 0 {
		return "", nil
	}
	for _, path := range searched {
		// A file that is there and cannot be read is taken, so that its fault is told rather than passed over.
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	return "", config.Faults{{Msg: "no config: neither " + strings.Join(searched, " nor ") +
		" exists; name one with --config FILE, or name resources, e.g. kubejournal run pods"}}
}
