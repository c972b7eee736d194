package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/selector"
)

// getFlags are the flags of get.
type getFlags struct {
	askFlags
	at, since, until argument.Moment
	deleted, clean   bool
	labels, fields   string
	selector         *selector.Selector
}

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
	var f getFlags
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
		RunE: f.run,
	}
	flags := cmd.Flags()
	addTime(cmd, &f.at, "at", "show objects as they were at that `TIME`")
	flags.BoolVar(&f.deleted, "deleted", false, "show what was deleted, as it was last")
	addTime(cmd, &f.since, "since",
		"with --deleted: since that `TIME`, e.g. 90m (ago), today, 14:02, 'yesterday 14:02'")
	addTime(cmd, &f.until, "until", "with --deleted: up to that `TIME`")
	flags.BoolVar(&f.clean, "clean", false, "make it what kubectl apply and kubectl diff take")
	flags.StringVarP(&f.labels, "selector", "l", "", "objects whose labels match `SELECTOR`, as for kubectl")
	flags.StringVar(&f.fields, "field-selector", "", "objects whose fields match `SELECTOR`, e.g. spec.nodeName=node-a")
	f.add(cmd, "`FORMAT`: table, wide (nothing cut), name, yaml or json", "table", "wide", "name", "yaml", "json")
	return cmd
}

func (f *getFlags) run(cmd *cobra.Command, args []string) error {
	var err error
	switch {
	case len(args) == 0:
		err = errors.New("name a RESOURCE, e.g. deploy/web, pods or '*'")
	case f.deleted && !f.at.IsZero():
		err = errors.New("--deleted takes --since and --until, not --at")
	case !f.deleted && !(f.since.IsZero() && f.until.IsZero()):
		err = errors.New("--since and --until go with --deleted; for a state write --at")
	case f.clean && cmd.Flags().Changed("output") && f.output != "yaml" && f.output != "json":
		err = fmt.Errorf("--clean writes yaml or json, not %s", f.output)
	case f.clean && f.output != "json":
		f.output = "yaml"
	}
	if err == nil {
		f.selector, err = selector.Parse(f.labels, f.fields)
	}
	if err != nil {
		return usageError{err, nil}
	}
	if err := checkTimes(f.since, f.until); err != nil {
		return err
	}
	if f.To, f.State = f.at, true; f.deleted {
		f.Begin, f.To, f.State = f.since, f.until, false
	}
	wide := f.output == "wide"
	if wide {
		f.output = "table"
	}
	switch {
	case f.clean:
		f.applied = "--clean"
	case f.output != "table":
		f.applied = "-o " + f.output
	}
	return f.ask(cmd, args, func(all []answer.Asked, o *answer.Output) error {
		if wide {
			o.Width = 0
		}
		if f.at.IsZero() && !f.deleted {
			f.at = argument.Latest()
		}
		s := all[0].Selection
		g := &answer.Get{Format: f.output, At: f.at, Deleted: f.deleted,
			One: len(s.Objects) == 1 && s.Objects[0].Name != ""}
		g.Namespace = f.namespace()
		if f.labels != "" || f.fields != "" {
			g.Match = f.selector.Match
		}
		found := make([]answer.Found, len(all))
		for n := range all {
			found[n].Asked = all[n]
			if err := f.find(cmd.Context(), &found[n]); err != nil {
				return err
			}
		}
		if !f.clean {
			return g.Items(cmd.Context(), found, o)
		}
		if f.deleted {
			if g.Replaced, err = all[0].Journal.Replaced(cmd.Context(), s, found[0].Items); err != nil {
				return err
			}
		}
		return g.Cleaned(cmd.Context(), &found[0])
	})
}

// find finds the objects of a cluster.
func (f *getFlags) find(ctx context.Context, found *answer.Found) error {
	j, s := found.Journal, found.Selection
	if err := checkVersions(s, f.at); err != nil {
		return err
	}
	atVersions, err := versionLines(ctx, j, s, &f.since, &f.until)
	if err != nil {
		return err
	}
	if !f.deleted {
		st, err := j.State(ctx, s, f.at)
		if err == nil {
			found.Items, found.Doubts = st.Items, st.Doubts
		}
		return err
	}
	items, doubts, err := j.Deleted(ctx, s, f.since, f.until)
	found.Items, found.Doubts = items, slices.Concat(atVersions, doubts)
	return err
}
