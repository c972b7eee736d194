package main

import (
	"os"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/command"
)

const diffHelp = `Show what changed between two times, of an object, in a namespace, or everywhere: a unified diff of YAML for each object that
was added, deleted or changed. Without --until it is up to now or, where --since is a time or a line, the last time that the
journal covers.

A difference does not show what changed and changed back, nor what came and went in between: stderr counts and names that,
and 'kubejournal history' shows it. What says little, such as the counts in a status, is left out and counted; --all shows it.

-o json is a line for each object: change (ADDED, MODIFIED, DELETED; REVERTED: changed and changed back; TRANSIENT: came and
went), what names it, versions (lines about it in between), before and after (seq, time, writtenAt, resourceVersion, manager,
subresource of the line with that state), changes (as in a line, of what was there at both times) and incomplete (why lines
do not have all of it). The last line is a SUMMARY: since, until, different, reverted, transient, hidden, gone, notCovered.
Of several clusters, each has one. Fields may be added.

A redacted value is listed as changed if any version in between changed it.

If KUBECTL_EXTERNAL_DIFF is set, that program shows the difference, as with kubectl diff.
`

func newDiffCommand() *cobra.Command {
	var (
		f      askFlags
		d      command.Diff
		colour string
	)
	cmd := &cobra.Command{
		Use:   "diff [RESOURCE[/NAME]...] --since TIME",
		Short: "Show what changed between two times",
		Long: diffHelp + timeHelp + versionHelp + pagerHelp + journalHelp + clustersHelp + `

Exit status: 0 if nothing differs; 2 for a usage or config fault; 1 if something differs, if the journal cannot be read, or
if it has nothing of that name; 3 if the answer depends on a time that is not covered: stderr names stream and interval.`,
		Example: `  # what changed in the last half hour, a row for each object
  kubejournal diff --since 30m --stat

  # one Deployment, between two times
  kubejournal diff deploy/web -n shop --since 14:00 --until 14:10`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.paged = f.Output == "text"
			d.Colour, d.External = styleOf(cmd, colour).Colour, os.Getenv("KUBECTL_EXTERNAL_DIFF")
			return f.ask(cmd, args, &d)
		},
	}
	flags := cmd.Flags()
	addTime(cmd, &d.Since, "since", "from that `TIME`, e.g. 90m (ago), today, 14:02, 'yesterday 14:02'")
	addTime(cmd, &d.Until, "until", "up to that `TIME`")
	flags.BoolVar(&d.Stat, "stat", false, "a row for each object")
	flags.BoolVar(&d.All, "all", false, "show what is left out as noise too")
	addColour(cmd, &colour)
	f.addPager(cmd)
	f.add(cmd, "`FORMAT`: text, or json for a line for each object", "text", "json")
	return cmd
}
