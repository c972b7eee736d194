package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"kubejournal/internal/config"
)

func newValidateCommand() *cobra.Command {
	var configFlag string
	cmd := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Check a config without a cluster",
		Long: `Read a config as run would read it, with the same environment, and report everything that is wrong with it,
one line per fault. No cluster is asked.

Exit status: 0 when the config can be run, 2 when it has a fault.`,
		Example: `  kubejournal validate --config kubejournal.yaml

  # a config that takes the name of its node from the environment
  NODE_NAME=node-1 kubejournal validate --config kubejournal.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := configPath(configFlag, nil, os.LookupEnv)
			if err != nil {
				return err
			}
			cfg, err := config.Load(path, config.Overrides{}, os.LookupEnv)
			if err != nil {
				return err
			}
			entries := "entries"
			if len(cfg.Resources) == 1 {
				entries = "entry"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %d resource %s\n", path, len(cfg.Resources), entries)
			return err
		},
	}
	cmd.Flags().StringVar(&configFlag, "config", "", "config `FILE` (default: as for run)")
	return cmd
}
