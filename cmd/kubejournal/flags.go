package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubejournal/internal/config"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/host/terminal"
)

// flagUsage is the help of the flags that set keys of the config.
var flagUsage = map[string]string{
	"kubeconfig": "kubeconfig `FILE` (default: as kubectl: $KUBECONFIG, ~/.kube/config, in-cluster)",
	"context":    "`NAME` of the kubeconfig context to use",
	"output":     "journal file `PATH`, or - for stdout",
	"checkpoint": "checkpoint file `PATH`, where positions are kept over a restart",
	"listen":     "`ADDR`ess for metrics and health, e.g. :8080; \"\" for none",
	"log-level":  "`LEVEL` of the log on stderr: debug, info, warn or error",
}

// configEnv is the variable for --config.
const configEnv = "KUBEJOURNAL_CONFIG"

// searched is where a config is looked for when none is named; the first that exists is taken.
var searched = []string{"./kubejournal.yaml", "/etc/kubejournal/kubejournal.yaml"}

// configPath returns the config file to read: the flag's, else the variable's, else the first of the searched ones.
// It returns "" where arguments name the resources and no file is named, or where an error says that there is none.
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
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		// It may name a kubeconfig, which may name a program to run.
		if err == nil && !filepath.IsAbs(path) {
			if uid, ok := disk.OwnerOf(info); ok && uid != 0 && int(uid) != os.Geteuid() {
				return path,
					config.Faults{{Msg: fmt.Sprintf("%s belongs to user %d, and a config can name a program to run;"+
						" if you trust it, name it: --config %s", disk.Absolute(path), uid,
						terminal.ShellWord(disk.Absolute(path)))}}
			}
		}
		return path, nil
	}
	return "", config.Faults{{Msg: "no config: neither " + disk.Absolute(searched[0]) + " nor " + searched[1] +
		" exists; name one with --config FILE, or name resources, e.g. kubejournal run pods"}}
}

// loadConfig reads the config that --config names, or else the one that run would read. path is "" if there is none.
func loadConfig(flag string, given map[string]string) (path string, cfg *config.Config, err error) {
	if path, err = configPath(flag, nil, os.LookupEnv); err != nil {
		return path, nil, err
	}
	cfg, err = config.Load(path, config.Overrides{Flags: given}, os.LookupEnv)
	return path, cfg, err
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
func serverOptions(cmd *cobra.Command) config.Kubernetes {
	values, given := map[string]string{}, givenFlags(cmd)
	for _, o := range config.Options {
		values[o.Key] = os.Getenv(o.Env)
		if value, ok := given[o.Flag]; ok {
			values[o.Key] = value
		}
	}
	return config.Kubernetes{Kubeconfig: values["kubernetes.kubeconfig"], Context: values["kubernetes.context"]}
}

// choice is the value of a flag that takes one of a few words.
type choice struct {
	word  *string
	words []string
}

// addChoice adds such a flag. Its default is the first word.
func addChoice(cmd *cobra.Command, word *string, flag, short, usage string, words ...string) {
	*word = words[0]
	cmd.Flags().VarP(choice{word, words}, flag, short, usage)
	complete(cmd, flag, words)
}

func (c choice) String() string { return *c.word }

func (c choice) Type() string { return "string" }

func (c choice) Set(word string) error {
	if last := len(c.words) - 1; !slices.Contains(c.words, word) {
		return fmt.Errorf("%q is not known; write %s or %s", word, strings.Join(c.words[:last], ", "), c.words[last])
	}
	*c.word = word
	return nil
}

// complete has a shell complete the value of a flag.
func complete(cmd *cobra.Command, flag string, words []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}
