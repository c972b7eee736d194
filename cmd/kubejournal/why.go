package main

import (
	"github.com/spf13/cobra"

	"kubejournal/internal/ask/command"
)

const whyHelp = `Find out why an object is gone, why it does not run, or why it changed: a chain of causes, from what is asked about back to
what began it.

  10:22:05  pod web-778fcb6d7-cdktc deleted       its owner is gone                seq 512
  10:22:05  replicaset web-778fcb6d7 deleted      its owner is gone                seq 510
  10:22:04  deployment web deleted                the namespace was being deleted  seq 507
  10:22:04  namespace shop: deletion asked for                                     seq 498

Each row says what happened, why, and the seq of its line; the row below it is what that came from. A cause is certain where
lines prove that it was there before and is enough by itself: owner references by uid, conditions, deletionTimestamps, Events of
Kubernetes' own controllers. "likely (RULE)" is a cause that the named rule finds by circumstances. Where a cause cannot be
told, none is named: "to go on" says what would be needed. A field manager is a program's name, not a person; who asked for a
deletion is in the API server's audit log alone. Where 'kubejournal audit' has read that, the user is named, and with a client's
deletion what it calls itself; a cause that another user contradicts is left out, and one that the account of a controller
proves is certain.

"give it back" is a command that makes again what is gone, as it was before the first of these lines.

-o wide names the rule of each cause, and all lines that prove it. -o json has what names the object, question (gone, not
running or changed), and links: of each what names its object, seq, lines (what else proves why), time, what, manager, person
(as history has it), why, rule and certain; ends, before (changes of the minute before), restore and restoreAt (what to give
back, from which line), giveBack, and notCovered. Several clusters have a document each. Fields may be added.
`

func newWhyCommand() *cobra.Command {
	var (
		f askFlags
		w command.Why
	)
	cmd := &cobra.Command{
		Use:   "why RESOURCE/NAME [--at TIME]",
		Short: "Find out why an object is gone, does not run, or has changed",
		Long:  whyHelp + timeHelp + versionHelp + pagerHelp + journalHelp + clustersHelp + "\n" + statusHelp,
		Example: `  kubejournal why pod/web-778fcb6d7-cdktc -n shop

  # why it was as it was at two
  kubejournal why deploy/web -n shop --at 14:02`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.paged = f.Output != "json"
			return f.ask(cmd, args, &w)
		},
	}
	addTime(cmd, &w.At, "at", "as of that `TIME`")
	f.addPager(cmd)
	f.add(cmd, "`FORMAT`: text, wide (nothing cut) or json", "text", "wide", "json")
	return cmd
}
