package main

import (
	"github.com/spf13/cobra"

	"kubejournal/internal/ask/command"
)

const getHelp = `Show objects as they were at a time:

  NAMESPACE  NAME  AGE  LAST CHANGE (CET)    BY
  shop       web   12d  2026-11-20 13:58:04  kubectl set

Without --at it is now, as far as the journal says. What was received late, after an outage, counts from when it was made.

--deleted shows instead what was deleted since a TIME, as it was last. A deletion that was found after a gap or received late
has the times between which it was. BY is the field manager that wrote the version, a program's name, not a person; into
a pipe, and with -o wide, as the API has it (kubectl-set). The columns of a custom resource are those of its
CustomResourceDefinition, if that is in the journal.

--clean writes YAML that kubectl apply takes, Namespaces and CustomResourceDefinitions first: without what the server sets,
addresses and ports that it has chosen, and references to owners, without whom the garbage collector would delete the object
again. Finalizers stay. stderr names what is left out because a controller makes it again, and what is refused because the
journal does not have all of it, such as a Secret's redacted values: then the exit status is 1. It also names objects that are
too large for kubectl apply without --server-side.
`

func newGetCommand() *cobra.Command {
	var (
		f askFlags
		g command.Get
	)
	cmd := &cobra.Command{
		Use:   "get RESOURCE[/NAME]... --at TIME",
		Short: "Show objects as they were at a time",
		Long:  getHelp + timeHelp + versionHelp + journalHelp + clustersHelp + "\n" + statusHelp,
		Example: `  # the deployments of a namespace, as they were at two
  kubejournal get deploy -n shop --at 14:02

  # one of them as YAML
  kubejournal get deploy/web -n shop --at 'yesterday 14:02' -o yaml

  # what was deleted in the last hour
  kubejournal get '*' -n shop --deleted --since 1h

  # give it back
  kubejournal get '*' -n shop --deleted --since 1h --clean | kubectl apply -f -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("output") {
				f.Output = ""
			}
			return f.ask(cmd, args, &g)
		},
	}
	flags := cmd.Flags()
	addTime(cmd, &g.At, "at", "show objects as they were at that `TIME`")
	flags.BoolVar(&g.Deleted, "deleted", false, "show what was deleted, as it was last")
	addTime(cmd, &g.Since, "since",
		"with --deleted: since that `TIME`, e.g. 90m (ago), today, 14:02, 'yesterday 14:02'")
	addTime(cmd, &g.Until, "until", "with --deleted: up to that `TIME`")
	flags.BoolVar(&g.Clean, "clean", false, "make it what kubectl apply and kubectl diff take")
	flags.StringVarP(&g.Labels, "selector", "l", "", "objects whose labels match `SELECTOR`, as for kubectl")
	flags.StringVar(&g.Fields, "field-selector", "", "objects whose fields match `SELECTOR`, e.g. spec.nodeName=node-a")
	f.add(cmd, "`FORMAT`: table, wide (nothing cut), name, yaml or json", "table", "wide", "name", "yaml", "json")
	return cmd
}
