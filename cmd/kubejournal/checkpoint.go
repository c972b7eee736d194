package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/host/terminal"
)

// checkpointEnv is the variable for --checkpoint.
const checkpointEnv = "KUBEJOURNAL_CHECKPOINT"

func newCheckpointCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Look at the positions that are kept over a restart, or forget one",
		Long: `Show or change the checkpoint while no daemon runs with it. A running daemon locks the file: use 'kubejournal status', or
/streams on its listen address.`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	cmd.AddCommand(newCheckpointShowCommand(), newCheckpointResetCommand())
	return cmd
}

// checkpointFlags say where the checkpoint is.
type checkpointFlags struct{ path, config string }

func (f *checkpointFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.path, "checkpoint", "", "checkpoint file `PATH` (default: $"+checkpointEnv+
		", else checkpoint.path of the config)")
	flags.StringVar(&f.config, "config", "", "config `FILE` (default: as for run)")
}

// find returns the absolute path of the checkpoint: the flag's, else the variable's, else that of the config that run
// would read.
func (f *checkpointFlags) find() (string, error) {
	if path := cmp.Or(f.path, os.Getenv(checkpointEnv)); path != "" {
		return disk.Absolute(path), nil
	}
	file, cfg, err := loadConfig(f.config, nil)
	switch {
	case file == "":
		return "", usagef("no checkpoint named; name one with --checkpoint PATH, or its config with --config FILE")
	case err != nil:
		return "", err
	case cfg.Checkpoint.Path == "":
		return "", usagef("%s keeps no checkpoint: its checkpoint.path is empty; name one with --checkpoint PATH", file)
	}
	return disk.Absolute(cfg.Checkpoint.Path), nil
}

func newCheckpointShowCommand() *cobra.Command {
	var (
		where  checkpointFlags
		output string
	)
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the position of each stream and how many objects it knows",
		Long: `Show what a checkpoint holds: its cluster, how far the journal was written at the last commit, and for each stream the
resourceVersion up to which everything is in the journal and the number of objects that exist as far as it was written.
The file is neither changed nor created.

A stream is in one of these states:
  synced      everything up to its position is in the journal
  first sync  the snapshot of what exists is not complete
  gap owed    its position is not valid any more; the next run begins with a GAP line
  gap open    the GAP line is in the journal, the SYNCED line that ends the gap is not
  reset       'checkpoint reset' has forgotten it since the last run

Exit status: 0, 2 for a usage or config fault, 1 if the file cannot be read or a daemon holds it.`,
		Example: `  kubejournal checkpoint show --checkpoint /var/lib/kubejournal/kubejournal.db

  # the one that a config names, for a program
  kubejournal checkpoint show --config kubejournal.yaml -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := where.find()
			if err != nil {
				return err
			}
			shown, err := checkpoint.Summarize(path)
			if err != nil {
				return err
			}
			if output == "json" {
				enc := json.NewEncoder(terminal.Raw(cmd.OutOrStdout()))
				enc.SetIndent("", "  ")
				return enc.Encode(shown)
			}
			return shown.WriteText(cmd.OutOrStdout())
		},
	}
	where.add(cmd)
	addChoice(cmd, &output, "output", "o", "`FORMAT`: table or json", "table", "json")
	return cmd
}

func newCheckpointResetCommand() *cobra.Command {
	var where checkpointFlags
	cmd := &cobra.Command{
		Use:   "reset STREAM",
		Short: "Forget one stream, so that the next run starts it over",
		Long: `Forget the position of one stream and the objects that it knows. The next run begins it as new, with a snapshot of what
exists, or with nothing where its entry says initial: skip. What happens between its last line and that start is not in
the journal, and objects deleted in between get no DELETED line. The journal and the other streams are not touched.

The daemon must be stopped. After a crash, too, nothing of the stream comes back: lines that the last commit did not
cover stay in the journal and are ignored by the next start. The reset is one transaction: all or nothing.

STREAM is the name as in 'checkpoint show'.

Exit status: 0, 2 for a usage or config fault, 1 if there is no such stream, the file cannot be changed or a daemon holds
it.`,
		Example: `  kubejournal checkpoint reset pods --checkpoint kubejournal.db

  # one namespace of a resource, with the quotes that a shell wants
  kubejournal checkpoint reset 'deployments.apps?namespace=web' --config kubejournal.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("takes the name of one stream; 'kubejournal checkpoint show' lists them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := where.find()
			if err != nil {
				return err
			}
			forgotten, err := checkpoint.ForgetIn(path, args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: forgot position %s and %d known objects; the next run starts it over\n",
				terminal.Line(forgotten.Stream), cmp.Or(forgotten.ResourceVersion, "-"), forgotten.Known)
			return err
		},
	}
	where.add(cmd)
	return cmd
}
