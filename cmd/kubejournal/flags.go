package main

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubejournal/internal/config"
)

// flagUsage is the help of the flags that stand for keys of the config.
var flagUsage = map[string]string{
	"kubeconfig": "kubeconfig `FILE` (default: as kubectl: $KUBECONFIG, ~/.kube/config, in-cluster)",
	"context":    "`NAME` of the kubeconfig context to use",
	"output":     "journal file `PATH`, or - for stdout",
	"checkpoint": "checkpoint file `PATH`, where positions are kept over a restart",
	"listen":     "`ADDR`ess for metrics and health, e.g. :8080; \"\" for none",
	"log-level":  "`LEVEL` of the log on stderr: debug, info, warn or error",
}

// configEnv is the variable behind --config.
const configEnv = "KUBEJOURNAL_CONFIG"

// searched is where a config is looked for when none is named; the first that exists is taken.
var searched = []string{"./kubejournal.yaml", "/etc/kubejournal/kubejournal.yaml"}

// configPath returns the config file to read: the flag's, else the variable's, else the first of the searched ones.
// It returns "" where arguments name the resources and no file is named.
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
		// A file that is there and cannot be read is taken, so that its fault is reported.
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	return "", config.Faults{{Msg: "no config: neither " + strings.Join(searched, " nor ") +
		" exists; name one with --config FILE, or name resources, e.g. kubejournal run pods"}}
}

// givenFlags returns the flags that the user gave, an empty value included: --listen "" turns listening off.
func givenFlags(cmd *cobra.Command) map[string]string {
	given := map[string]string{}
	for _, o := range config.Options {
		if f := cmd.Flags().Lookup(o.Flag); f != nil && f.Changed {
			given[o.Flag] = f.Value.String()
		}
	}
	return given
}

// addServerFlags adds the flags by which the API server is found.
func addServerFlags(cmd *cobra.Command) {
	for _, o := range config.Options {
		if strings.HasPrefix(o.Key, "kubernetes.") {
			cmd.Flags().String(o.Flag, "", flagUsage[o.Flag])
		}
	}
}

// serverOptions is what those flags say, or else their variables; no config is read.
func serverOptions(cmd *cobra.Command, env config.Env) config.Kubernetes {
	given := givenFlags(cmd)
	var k config.Kubernetes
	for key, to := range map[string]*string{"kubernetes.kubeconfig": &k.Kubeconfig, "kubernetes.context": &k.Context} {
		o := config.Options[slices.IndexFunc(config.Options, func(o config.Option) bool { return o.Key == key })]
		*to, _ = env(o.Env)
		if said, ok := given[o.Flag]; ok {
			*to = said
		}
	}
	return k
}
