package main

import (
	"github.com/spf13/cobra"

	"kubejournal/internal/ask/command"
)

func newCoverageCommand() *cobra.Command {
	var f askFlags
	cmd := &cobra.Command{
		Use:   "coverage [RESOURCE...]",
		Short: "Show from when to when each stream was watched",
		Long: `Show, for each stream of a journal, the intervals in which every change is in the journal, and why they ended.

  STREAM            FROM (CET)           TO        FOR    END
  deployments.apps  2026-11-20 14:00:02  14:07:31  7m29s  GAP Expired, 2 objects differed
                    2026-11-20 14:07:50  15:10:22  1h3m   ongoing

In a "late" interval, lines came late: the daemon was down or could not reach the server, and then resumed where it was.
Between two intervals changes may be missing, unless there was no difference. "ongoing" is as far as the file
says: a daemon that was killed could not say otherwise.

An interval FOR 0s is a list that was complete; nothing after it is certain.

What was covered in a file that is missing, or does not begin as it did, is left out; stderr names the file.

-o json is a list of streams, each with its intervals: from, to, late, end (why it ended: Unknown, Stopped, Removed,
Interrupted, Silent, CaughtUp, HandedOver, Lost or the reason of a GAP; none while it is ongoing), differences (how many
objects differed after the GAP) and heldBack (the keys by which the config kept changes out of the journal: types,
filter, excludeNamespaces, ignoreFields, initial). Fields may be added.
` + journalHelp + clustersHelp + `

Exit status: 0; 2 for a usage or config fault; 1 if the journal cannot be read; 3 if nothing is known, or a file is
missing.`,
		Example: `  kubejournal coverage

  # for a program
  kubejournal coverage pods --journal /var/lib/kubejournal/journal.jsonl -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.ask(cmd, args, command.Coverage{})
		},
	}
	f.add(cmd, "`FORMAT`: table or json", "table", "json")
	return cmd
}
