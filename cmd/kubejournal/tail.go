package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/cluster"
	"kubejournal/internal/ask/command"
	"kubejournal/internal/ask/follow"
	"kubejournal/internal/config"
	"kubejournal/internal/format/index"
	"kubejournal/internal/host/terminal"
)

// tailFlags are the flags of tail.
type tailFlags struct {
	config, output, colour string
	journals               []string
	noFollow, all          bool
	follow.Options
}

const tailHelp = `Show the last lines of a journal, one event a line, and then new ones as they come, until Ctrl-C:

  TIME          TYPE      RESOURCE          OBJECT    WHO             WHAT
  16:10:22.123  MODIFIED  deployments.apps  shop/web  kubectl edit    spec.replicas 2→3

Name objects as for kubectl get: pods, pods,deploy, deploy/web, deploy web, deployments.apps, '*'. Short names are those of
Kubernetes' own resources and of CustomResourceDefinitions in the journal. Without a RESOURCE, all objects are shown.

TIME is when the line was received, in the local time zone; a line of its own names date and zone. 16:10:19* marks a change
that was received more than 3 seconds after it was made, for example one made during an outage: the time is when it was made.
WHO is the field manager that wrote (a program's name, not a person; into a pipe as the API has it: kubectl-edit), or
the reporter of an Event. The API does not say who deleted. Of lines that 'kubejournal audit' has read an audit log about when
tail begins, WHO is the user; of lines that come, it is not known yet, and what was shown is not shown again. WHAT is, in short, the change (with changes: true in the
config), an Event's message, the generation, the counts of a SYNCED, or a GAP: how long, why, the position and the
server's version then. Changes of the spec come first, and list elements have their names. A GAP without a difference is
one row with its SYNCED. "snapshot" existed at first sight, "relist" was found by comparing after a gap.

FILE is the journal, - is stdin. The first argument is the FILE if such a file exists or it looks like a path; with
--journal all arguments are objects. The default is output.path of the config that run would read. The journal is followed
across rotation, by logrotate too: every line is shown once, and stderr names what went with a removed file. What is there
is what 'kubejournal history --all' has; --since and --until go by when a change was made. A rotated file that is named itself is
shown alone, to its end.

With filters, --lines counts the lines that pass. With --since or --until, all lines are shown unless --lines is given;
--until ends with what is there.
` + timeHelp + `
GAP and SYNCED concern a whole stream: they pass -n and names if the stream has such objects. A line that cannot be read is
shown as BAD.

The journals of several replicas, or shards, are shown as one with a --journal for each: every line once, in one order. What is
there is merged in TMPDIR first; seq counts the merged lines.
Those of several clusters are refused: run a tail for each cluster, or 'kubejournal history', which asks them together.

A resource, namespace or object that no line is about is an error. While the journal is followed, an object may still come, and so
may a resource of Kubernetes' own and a custom resource named with its group: stderr says that there is none yet.

On a terminal lines are cut to its width and coloured (unless NO_COLOR is set), and changes that follow from others
(heartbeats, observedGeneration, last-applied-configuration) are left out. Below 140 columns resource and object are one
column, and types are ADD, MOD, DEL, GAP and SYNC. Unprintable characters are shown as escapes. Into a pipe, and with -o
wide, nothing is cut.

Exit status: 0, also after Ctrl-C and when the reader of a pipe goes away; 2 for a usage or config fault; 1 if the journal
cannot be read or has no such resource, namespace or object; 3 if it ends and nobody watched a resource that is named, or not all
of the time that --since and --until name, if lines are missing among those shown, or if an object of an unknown name may have
come and gone unseen.`

const tailExample = `  # the last ten lines and what comes, of the journal that kubejournal.yaml names
  kubejournal tail

  # one Deployment, and the pods of its namespace
  kubejournal tail deploy/web -n shop
  kubejournal tail pods -n shop

  # what was deleted in the last two hours, in one namespace, and no more
  kubejournal tail --since 2h --type DELETED -n shop --no-follow /var/lib/kubejournal/journal.jsonl

  # what happened around two in the afternoon
  kubejournal tail --since 13:55 --until 14:05

  # deployments and pods as they change, as JSON for a program
  kubejournal tail journal.jsonl deploy,pods -N 0 -o json | jq -r .name

  # what a pod of kubejournal writes to stdout
  kubectl logs -f deploy/kubejournal | kubejournal tail -`

func newTailCommand() *cobra.Command {
	f := tailFlags{Options: follow.Options{Lines: 10}}
	cmd := &cobra.Command{
		Use:     "tail [FILE] [RESOURCE[/NAME]...]",
		Short:   "Show journal lines to people, and follow the journal",
		Long:    tailHelp,
		Example: tailExample,
		RunE:    f.run,
	}
	flags := cmd.Flags()
	flags.FuncP("lines", "N", "show the last `N` lines first, or all; from stdin all (default 10)", f.setLines)
	flags.BoolVarP(&f.Follow, "follow", "f", true, "follow lines as they come")
	flags.BoolVar(&f.noFollow, "no-follow", false, "end with the last line that is there")
	flags.Func("resource", "show these `RESOURCE`s or RESOURCE/NAMEs too, like an argument; may be repeated",
		func(list string) error {
			all, err := argument.ObjectList(list)
			f.Filter.Objects = append(f.Filter.Objects, all...)
			return err
		})
	flags.StringSliceVarP(&f.Filter.Namespaces, "namespace", "n", nil,
		"show objects of these `NAMESPACE`s alone; may be repeated")
	flags.BoolVarP(&f.all, "all-namespaces", "A", false,
		"show objects of all namespaces, whatever -n says; the default")
	flags.Func("type",
		"show lines of these `TYPE`s alone: ADDED, MODIFIED, DELETED, GAP, SYNCED, REMOVED, SEALED; may be repeated",
		each(&f.Filter.Types, follow.ParseType))
	completeFlag(cmd, "type", cobra.FixedCompletions(index.Types, cobra.ShellCompDirectiveNoFileComp))
	addTime(cmd, &f.Filter.Since, "since",
		"show lines since that `TIME`, e.g. 90m (ago), today, 14:02, 'yesterday 14:02'")
	addTime(cmd, &f.Filter.Until, "until", "show lines up to that `TIME`, and end there")
	addChoice(cmd, &f.output, "output", "o", "`FORMAT`: text, wide (nothing cut), or json for the lines as they are",
		"text", "wide", "json")
	addColour(cmd, &f.colour)
	flags.StringArrayVar(&f.journals, "journal", nil,
		"the journal's `FILE`; then all arguments name objects; may be repeated, for those of replicas and shards")
	flags.StringVar(&f.config, "config", "", "config `FILE` that names the journal (default: as for run)")
	find := func(_ *cobra.Command, args []string) ([]string, []string, error) { return f.find(args) }
	completeNames(cmd, find, &f.Filter.Namespaces)
	names := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		all, directive := names(cmd, args, word)
		if len(args) == 0 && len(f.journals) == 0 {
			directive = cobra.ShellCompDirectiveDefault // it may be a FILE
		}
		return all, directive
	}
	return cmd
}

// each returns what a flag does that takes a list with commas and may be repeated.
func each[T any](all *[]T, parse func(string) (T, error)) func(string) error {
	return func(list string) error {
		for text := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' }) {
			v, err := parse(text)
			if err != nil {
				return err
			}
			*all = append(*all, v)
		}
		return nil
	}
}

func (f *tailFlags) setLines(text string) (err error) {
	if text == "all" {
		f.Lines = follow.All
		return nil
	}
	if f.Lines, err = strconv.Atoi(text); err != nil || f.Lines < 0 {
		return fmt.Errorf("%q is not a number of lines; write e.g. 10, 0 for new ones alone, or all", text)
	}
	return nil
}

func (f *tailFlags) run(cmd *cobra.Command, args []string) error {
	var q answering
	err := q.run(cmd.Context(), func() error { return f.show(cmd, args) })
	if errors.Is(err, errInterrupted) {
		return nil // as always after Ctrl-C
	}
	return err
}

func (f *tailFlags) show(cmd *cobra.Command, args []string) error {
	paths, args, err := f.find(args)
	if err != nil {
		return err
	}
	objects, err := argument.Objects(args)
	if err != nil {
		return usageError{err, nil}
	}
	f.Filter.Objects = append(f.Filter.Objects, objects...)
	if f.all {
		f.Filter.Namespaces = nil
	}
	if err := command.CheckTimes(f.Filter.Since, f.Filter.Until); err != nil {
		return err
	}
	if err := command.CheckOne(len(paths), f.Filter.Since, f.Filter.Until); err != nil {
		return err
	}
	if f.Filter.Since.Version+f.Filter.Until.Version > 0 {
		return usagef("tail takes no rv:; 'kubejournal history' does")
	}
	if cmd.Flags().Changed("follow") && f.Follow && !f.Filter.Until.IsZero() {
		return usagef("--until ends with what is there; leave --follow out")
	}
	if len(paths) > 1 {
		clusters, err := cluster.Group(cmd.Context(), paths, func(string) {})
		if err != nil {
			return err
		}
		if len(clusters) > 1 {
			return fmt.Errorf("the journals are of clusters %s and %s; run a tail for each cluster, or 'kubejournal "+
				"history', which asks them together",
				clusters[0].Name, clusters[1].Name)
		}
	}
	stdin := paths[0] == config.Stdout
	if !cmd.Flags().Changed("lines") && (stdin || !f.Filter.Since.IsZero() || !f.Filter.Until.IsZero()) {
		f.Lines = follow.All // of stdin the last ones are known at the end only
	}
	f.Follow = f.Follow && !f.noFollow && f.Filter.Until.IsZero()
	f.Notice = func(text string) { terminal.Note(cmd.ErrOrStderr(), text) }
	f.Doubt = (&answer.Output{Notes: cmd.ErrOrStderr()}).Doubt
	f.Gone = func() bool { return follow.ReaderGone(cmd.OutOrStdout()) }
	style := styleOf(cmd, f.colour)
	style.JSON, style.Wide = f.output == "json", f.output == "wide"
	if len(f.Filter.Namespaces) == 1 {
		style.Same.Namespace = f.Filter.Namespaces[0]
	}
	p := follow.NewPrinter(cmd.OutOrStdout(), style)
	// A reader that goes away, such as head, is the end and no fault.
	signal.Ignore(syscall.SIGPIPE)
	if stdin {
		err = follow.Stream(cmd.Context(), cmd.InOrStdin(), f.Options, p)
	} else {
		err = follow.Files(cmd.Context(), paths, f.Options, p)
	}
	switch {
	case errors.Is(err, syscall.EPIPE) || errors.Is(err, context.Canceled):
		return nil
	case errors.Is(err, follow.ErrNotCovered):
		return statusError(exitNotCovered)
	}
	return err
}

// find returns the journal's file, and the arguments that name objects: --journal or the first argument if that can
// only be a file, else that of the config that run would read.
func (f *tailFlags) find(args []string) (paths, objects []string, err error) {
	if len(args) > 0 && args[0] == "" {
		args = args[1:]
	}
	if len(f.journals) > 0 {
		if len(f.journals) > 1 && slices.Contains(f.journals, config.Stdout) {
			return nil, nil, usagef("--journal - cannot be shown together with others; write stdin to a file, " +
				"or leave one out")
		}
		return f.journals, args, checkJournals(f.journals)
	}
	if len(args) > 0 && isFile(args[0]) {
		return args[:1], args[1:], nil
	}
	path, err := journalOf(f.config, "its FILE, - for stdin", "name a FILE, or pipe the lines into 'kubejournal tail -'")
	return []string{path}, args, err
}

// isFile reports whether an argument names a journal, not objects: it is a file, or looks like the path of one.
func isFile(arg string) bool {
	if arg == config.Stdout || strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, ".") ||
		strings.Contains(arg, ".jsonl") {
		return true
	}
	if info, err := os.Stat(arg); err == nil {
		return !info.IsDir()
	}
	_, err := argument.Objects([]string{arg})
	return err != nil && strings.Contains(arg, "/")
}
