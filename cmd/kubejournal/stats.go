package main

import (
	"github.com/spf13/cobra"

	"kubejournal/internal/ask/command"
)

func newStatsCommand() *cobra.Command {
	var (
		f askFlags
		s command.Stats
	)
	cmd := &cobra.Command{
		Use:   "stats [RESOURCE[/NAME]...]",
		Short: "Show what the journal is made of, and what would make it smaller",
		Long: `Show how many lines and bytes there are of each type, stream, namespace, object, writer (WHO, as in history) and hour, those
with the most bytes first, and which keys of the config would make the journal smaller: YAML to copy, with the bytes it would
have saved. Bytes are those of lines; compressed files take about a tenth of them.

     BYTES      %      LINES  NAMESPACE
    1.6 MB    77%        735  shop

Counts are those of the indexes; the active file, and files without an index, are read. What a config could save that the
indexes do not say, such as ignoreFields, is estimated from a sample of the lines, and marked with "about".

Lines are those of 'kubejournal history --all'; where nothing is selected, REMOVED and SEALED too, as stream "journal". An hour
has the lines that were received in it. Of several journals each is counted: a line that two replicas have counts twice, as it
takes room twice. An object is what has the same resource, namespace and name.

-o json has first and last (when lines were received), lines, bytes, types, and streams, namespaces, objects, managers and
hours: each with count (of all rows), top (the rows) and others (lines and bytes of the rest); suggestions: key, bytes,
percent, sampled, yaml and loses; sample (lines and bytes that were read for them); and notCovered. Several clusters have a
document each. Fields may be added.
` + timeHelp + journalHelp + clustersHelp + "\n" + statusHelp,
		Example: `  kubejournal stats

  # what filled it in the last day, in one namespace
  kubejournal stats -n shop --since 1d

  # all streams, for a program
  kubejournal stats --top 0 -o json | jq -r '.streams.top[] | [.bytes, .stream] | @tsv'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.ask(cmd, args, &s)
		},
	}
	addTime(cmd, &s.Since, "since", "lines since that `TIME`, e.g. 90m (ago), today, 14:02, 'yesterday 14:02'")
	addTime(cmd, &s.Until, "until", "lines up to that `TIME`")
	cmd.Flags().IntVar(&s.Top, "top", 10, "show so `MANY` rows of each table; 0 is all")
	f.add(cmd, "`FORMAT`: text or json", "text", "json")
	return cmd
}
