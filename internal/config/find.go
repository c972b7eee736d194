package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"kubejournal/internal/host/disk"
	"kubejournal/internal/host/terminal"
)

// PathEnv is the variable for --config.
const PathEnv = "KUBEJOURNAL_CONFIG"

// Searched is where a config is looked for when none is named; the first that exists is taken.
var Searched = []string{"./kubejournal.yaml", "/etc/kubejournal/kubejournal.yaml"}

// Find returns the config file to read: the flag's, else the variable's, else the first of the Searched ones.
// It returns "" where arguments name the resources and no file is named, or where an error says that there is none.
func Find(flag string, args []string, env Env) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if path, _ := env(PathEnv); path != "" {
		return path, nil
	}
	if len(args) > 0 {
		return "", nil
	}
	for _, path := range Searched {
		// A file that is there and cannot be read is taken, so that its fault is reported.
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		// It may name a kubeconfig, which may name a program to run.
		if err == nil && !filepath.IsAbs(path) {
			if uid, ok := disk.OwnerOf(info); ok && uid != 0 && int(uid) != os.Geteuid() {
				return path,
					Faults{{Msg: fmt.Sprintf("%s belongs to user %d, and a config can name a program to run;"+
						" if you trust it, name it: --config %s", disk.Absolute(path), uid,
						terminal.ShellWord(disk.Absolute(path)))}}
			}
		}
		return path, nil
	}
	return "", Faults{{Msg: "no config: neither " + disk.Absolute(Searched[0]) + " nor " + Searched[1] +
		" exists; name one with --config FILE, or name resources, e.g. kubejournal run pods"}}
}

// Server returns how the API server is found without a config: by flags, or else their variables.
func Server(flags map[string]string, env Env) Kubernetes {
	values := map[string]string{}
	for _, o := range Options {
		values[o.Key], _ = env(o.Env)
		if value, ok := flags[o.Flag]; ok {
			values[o.Key] = value
		}
	}
	return Kubernetes{Kubeconfig: values["kubernetes.kubeconfig"], Context: values["kubernetes.context"]}
}
