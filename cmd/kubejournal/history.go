package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/command"
	"kubejournal/internal/ask/follow"
	"kubejournal/internal/ask/search"
	"kubejournal/internal/host/terminal"
)

const historyHelp = `Show what happened to an object, in a namespace, or everywhere, a row for each version, oldest first:

  TIME      TYPE  OBJECT           WHO          WHAT
  14:02:11  MOD   deploy shop/web  kubectl set  containers[web].image …1.4.0→…1.5.0

Rows are those of 'kubejournal tail': WHO is the field manager that wrote, a program's name and not a person; of a deletion
nobody is named. After 'kubejournal audit' it is the user, where that is known. 14:02:11* is when a change was made that was
received late. A GAP says that the server's history was gone: what follows it, up to SYNC, is the net difference.
"-- 14:20:00 to 14:30:00" is a time in which nobody watched.

On a terminal, what the question says already is not repeated: the one object, resource or namespace that it names.
-o wide shows every column, cuts nothing, and has managers as the API names them (kubectl-set), as into a pipe.

Of an object that is named, each uid is a section of its own: one that was deleted and recreated is another object. What
says little is left out and counted at the end; --all shows it. So are gaps where an object, --related, --by, --field or
--deleted narrows the answer, but for those that a row lies in. With --by, stderr counts the versions of which no writer is known.

--warnings shows the Events of type Warning about the objects that are named, or all in the namespace: FailedScheduling, BackOff,
Unhealthy, FailedMount. An Event that is repeated has a row each time. That the server removed one, after an hour, is left out.

--grep shows where objects have a text instead, noise too: a row for each field whose value or key has it, at the first version
that does. "-- and 41 more versions until 12:31:05" counts those after it in which the same field has the same value. Case
matters, and numbers and booleans are texts as well. With --field only what is there or below is searched. Redacted and cut
values, and objects that lines do not have in full (payload), cannot be searched: stderr counts them. The exit status is 3 if
the text may be in them; in redacted values only if their resource is named, as in 'history secrets --grep admin'.

-o json of that is a line for each row: the version's line without object and changes, and match: path, in ("value" or
"key"), value (as JSON; of a key the key), versions (how many), last (seq and time of the last of them), and gone (the same
of the first version that does not have it, or of the deletion; left out where there is none or it is not known). Fields may be added.

The versions are those that the stream's config lets pass: what types, filter and ignoreFields hold back is in no answer, and
an object may have been newer than its last line. stderr names such streams.
`

func newHistoryCommand() *cobra.Command {
	var (
		f      askFlags
		h      command.History
		colour string
	)
	cmd := &cobra.Command{
		Use:   "history [RESOURCE[/NAME]...]",
		Short: "Show what happened, version by version",
		Long: historyHelp + timeHelp + versionHelp + pagerHelp + journalHelp + clustersHelp + "\n" + statusHelp + `
With --by it is 3 too if a version has no known writer; with --grep as said above.`,
		Example: `  # what happened to a Deployment, and what came of it
  kubejournal history deploy/web -n shop
  kubejournal history deploy/web -n shop --related

  # what changed anywhere in two minutes
  kubejournal history --since 14:00 --until 14:02

  # who changed the image, and when
  kubejournal history deploy/web --field 'spec.template.spec.containers[*].image'

  # what went wrong in a namespace, and with one object and all that belongs to it
  kubejournal history --warnings -n shop
  kubejournal history deploy/web -n shop --warnings --related

  # which objects mention an address, and since when
  kubejournal history --grep 10.0.12.7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.paged = f.Output == "text" || f.Output == "wide"
			h.Style, h.Progress = styleOf(cmd, colour), progressOf(cmd)
			return f.ask(cmd, args, &h)
		},
	}
	flags := cmd.Flags()
	addTime(cmd, &h.Since, "since", "versions since that `TIME`, e.g. 90m (ago), today, 14:02, 'yesterday 14:02'")
	addTime(cmd, &h.Until, "until", "versions up to that `TIME`")
	flags.BoolVarP(&h.Patch, "patch", "p", false, "show the difference of each version, as git log -p does")
	flags.BoolVar(&h.Related, "related", false,
		"show its owners, what it owns or, as a CustomResourceDefinition, defines, and Events about them")
	flags.BoolVar(&h.Warnings, "warnings", false,
		"Events of type Warning alone: about the objects that are named, with --related about those too; else all")
	flags.StringVar(&h.By, "by", "",
		"versions that `MANAGER`, or a user, wrote, in full or as shown; * stands for anything: 'kubectl*'")
	flags.Func("field", "versions that changed the field at `PATH`: spec.replicas, "+
		"spec.template.spec.containers[web].image", func(text string) (err error) {
		h.Field, err = answer.ParsePath(text)
		return err
	})
	addPattern(cmd, &h, "grep", "versions whose object has `TEXT` in a value or a key, and where", search.Text)
	addPattern(cmd, &h, "grep-regexp",
		"the same for a regular expression `RE` (RE2); (?i) at its beginning ignores case", search.Regexp)
	flags.BoolVar(&h.Deleted, "deleted", false, "deletions alone; stderr names the command that gives back what is gone")
	flags.BoolVar(&h.All, "all", false, "show what is left out as noise too")
	addColour(cmd, &colour)
	f.addPager(cmd)
	f.add(cmd, "`FORMAT`: text, wide (nothing cut), yaml for the objects, or json for the journal's lines or, with --grep, rows",
		"text", "wide", "yaml", "json")
	return cmd
}

// addPattern adds a flag that says what a history is searched for.
func addPattern(
	cmd *cobra.Command, h *command.History, flag, usage string, parse func(string) (*search.Pattern, error),
) {
	cmd.Flags().Func(flag, usage, func(text string) (err error) {
		if h.Pattern != nil {
			return errors.New("one text or regular expression at a time")
		}
		h.Pattern, err = parse(text)
		return err
	})
}

// progressOf returns what shows on stderr how far a search has come, nil where that is no terminal.
func progressOf(cmd *cobra.Command) *search.Progress {
	stderr := cmd.ErrOrStderr()
	if width := follow.Terminal(stderr, os.Getenv).Width; width != nil && os.Getenv("TERM") != "dumb" {
		return search.NewProgress(terminal.Raw(stderr), width)
	}
	return nil
}
