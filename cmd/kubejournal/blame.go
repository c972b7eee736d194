package main

import (
	"github.com/spf13/cobra"

	"kubejournal/internal/ask/command"
)

const blameHelp = `Show an object as YAML, and for each line when its value was written, by which field manager, and the seq of that version's
line in the journal:

  2026-11-20 14:02:11  kubectl set  1234  |         image: registry.example/web:1.5.0

A write that replaced a parent counts for all that is below it, and one that moved an element in its list for the element. "in
the gap" is a value that was written while the server's history was gone; "or before" one that is older than the journal. A
field manager is a program's name, not a person; into a pipe, and with -o wide, as the API has it (kubectl-set).

-o json has what names the object, seq and time of its version, and fields: path, value, and of the write seq, time, writtenAt,
manager, subresource, origin (watch: this line's; gap, between or older: as above, not before what after says); removed in
the same form, missed, deleted, and notCovered. Several clusters have a document each. Fields may be added.
`

func newBlameCommand() *cobra.Command {
	var (
		f askFlags
		b command.Blame
	)
	cmd := &cobra.Command{
		Use:   "blame RESOURCE/NAME [--at TIME]",
		Short: "Show who set each field of an object, and when",
		Long:  blameHelp + timeHelp + versionHelp + pagerHelp + journalHelp + clustersHelp + "\n" + statusHelp,
		Example: `  kubejournal blame deploy/web -n shop --spec

  # as it was at two, with the fields that were gone by then
  kubejournal blame deploy/web -n shop --at 14:02 --removed`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.paged = f.Output != "json"
			return f.ask(cmd, args, &b)
		},
	}
	flags := cmd.Flags()
	addTime(cmd, &b.At, "at", "the object as it was at that `TIME`")
	flags.BoolVar(&b.Spec, "spec", false, "leave the status out, and resourceVersion and generation")
	flags.BoolVar(&b.Removed, "removed", false, "list fields that are gone too")
	f.addPager(cmd)
	f.add(cmd, "`FORMAT`: text, wide (nothing cut) or json", "text", "wide", "json")
	return cmd
}
