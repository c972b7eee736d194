package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"kubejournal/internal/config"
	"kubejournal/internal/host/terminal"
	"kubejournal/internal/record/access"
	"kubejournal/internal/record/daemon"
)

func newValidateCommand() *cobra.Command {
	var (
		configFlag string
		server     bool
	)
	cmd := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Check a config without a cluster, or with --server against one",
		Long: `Read a config as run would, with the same environment, and report everything that is wrong with it, one line per fault.
No cluster is asked. Warnings are names that may be misspelt, an output or checkpoint that could not be written here, and limits
of the output that contradict each other or do not fit its volume.

With --server, the API server is asked too: which streams each entry results in, and whether this identity may list and
watch them. To ask as the daemon, use its credentials, or impersonate it in the kubeconfig. A table of all streams goes to
stdout; stderr has one line, with the remedy, for each that would be pending or fail. Each is listed with limit=1, which shows
a list that fails, or that has no resourceVersion and so cannot be followed. A namespace that is missing is a warning.

Exit status: 0 when the config can be run, 2 when it has a fault; with --server also 1 when some of it would be pending
because it is missing or not allowed, or its list fails or cannot be followed; or when the server cannot be asked.`,
		Example: `  kubejournal validate --config kubejournal.yaml

  # a config that takes the name of its node from the environment
  NODE_NAME=node-1 kubejournal validate --config kubejournal.yaml

  # which streams it results in on a cluster
  kubejournal validate --config kubejournal.yaml --server --context prod`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if given := givenFlags(cmd); len(given) > 0 && !server {
				return usagef("--kubeconfig and --context are for --server; add it")
			}
			path, cfg, err := loadConfig(configFlag, givenFlags(cmd))
			if faults, ok := errors.AsType[config.Faults](err); ok && path != "" {
				draft := config.Draft(path, config.Overrides{Flags: givenFlags(cmd)}, os.LookupEnv)
				warn(cmd, access.Misspelt(draft, faults))
			}
			if err != nil {
				return err
			}
			warn(cmd, slices.Concat(cfg.Unwritable(), daemon.LimitWarnings(cfg)))
			if server {
				return validateOnServer(cmd, path, cfg)
			}
			faults, warnings := access.ExamineOffline(cfg)
			warn(cmd, warnings)
			if len(faults) > 0 {
				return faults
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %s%s\n", terminal.Line(path),
				terminal.Count(len(cfg.Resources), "resource entry", "resource entries"), about(cfg))
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&configFlag, "config", "", "config `FILE` (default: as for run)")
	flags.BoolVar(&server, "server", false, "ask the API server too: what is there, and what this identity may watch")
	addServerFlags(cmd)
	return cmd
}

func warn(cmd *cobra.Command, warnings config.Faults) {
	for _, w := range warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), terminal.Line(w.Error()))
	}
}

// about says what the entries of a config take from its defaults, and its share of the objects if it is not the whole.
func about(cfg *config.Config) (text string) {
	if counts := cfg.Inherited(); counts != "" {
		text = "; defaults: " + counts
	}
	if shard := cfg.Shard.String(); shard != "" {
		text += "; shard " + shard
	}
	return text
}

// validateOnServer shows the streams of a config's entries. What would be pending is an error, what only the user can
// mend is config.Faults.
func validateOnServer(cmd *cobra.Command, path string, cfg *config.Config) error {
	s, err := access.Ask(cmd.Context(), cfg.Kubernetes, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	found, err := s.Examine(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	if err := found.WriteTable(cmd.OutOrStdout()); err != nil {
		return err
	}
	warn(cmd, slices.Concat(found.Warnings, found.Pending))
	switch n := len(found.Pending); {
	case len(found.Faults) > 0:
		return found.Faults
	case n > 0:
		return fmt.Errorf("%s: not all of it can run on this server; see %s above", path,
			terminal.Count(n, "finding", "findings"))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%s: ok on %s, %s%s\n", terminal.Line(path), terminal.Line(s.Host),
		terminal.Count(found.Streams, "stream", "streams"), about(cfg))
	return err
}
