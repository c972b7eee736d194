package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/follow"
	"kubejournal/internal/config"
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

// loadConfig reads the config that --config names, or else the one that run would read. path is "" if there is none.
func loadConfig(flag string, given map[string]string) (path string, cfg *config.Config, err error) {
	if path, err = config.Find(flag, nil, os.LookupEnv); err != nil {
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

// choice is the value of a flag that takes one of a few words.
type choice struct {
	word  *string
	words []string
}

// addChoice adds such a flag. Its default is the first word.
func addChoice(cmd *cobra.Command, word *string, flag, short, usage string, words ...string) {
	*word = words[0]
	cmd.Flags().VarP(choice{word, words}, flag, short, usage)
	completeFlag(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
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

// addColour adds the flag that says whether text is coloured.
func addColour(cmd *cobra.Command, when *string) {
	addChoice(cmd, when, "color", "", "`WHEN` to colour: auto (on a terminal), always or never", "auto", "always", "never")
}

// styleOf returns how lines are shown on stdout, coloured as that flag says.
func styleOf(cmd *cobra.Command, colour string) follow.Style {
	style := follow.Terminal(cmd.OutOrStdout(), os.Getenv)
	style.Colour = colour == "always" || style.Colour && colour == "auto"
	return style
}
