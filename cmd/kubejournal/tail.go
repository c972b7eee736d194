package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kubejournal/internal/config"
	"kubejournal/internal/tail"
)

// tailFlags are the flags of tail.
type tailFlags struct {
	config, output, colour string
	noFollow               bool
	tail.Options
}

func newTailCommand() *cobra.Command {
	f := tailFlags{Options: tail.Options{Lines: 10}}
	cmd := &cobra.Command{
		Use:   "tail [FILE]",
		Short: "Show journal lines to people, and follow the journal",
		Long: `Show the last lines of a journal, one event a line, and then new ones as they come, until Ctrl-C:

  TIME          TYPE      RESOURCE          OBJECT    WHO             WHAT
  16:10:22.123  MODIFIED  deployments.apps  shop/web  kubectl-edit    spec.replicas 2→3

TIME is local; a new date gets a line of its own. WHO wrote last, or reported an Event. WHAT is, in short, the change
(with changes: true in the config), an Event's message, the generation, a GAP's reason with its position and the server's
version then, or the counts of a SYNCED. "snapshot" existed at first sight, "relist" was found by comparing after a gap.

FILE is the journal; - is stdin. The default is output.path of the config that run would read. The journal is followed
across rotation, by logrotate too: every line is shown once, and stderr names what went with a removed file. Rotated
files, also compressed ones, are read where --lines or --since reaches back into them. A rotated file that is named itself
is shown alone, to its end.

With filters, --lines counts the lines that pass. With --since, all lines since then are shown unless --lines is given.
GAP and SYNCED concern a whole stream and pass -n if the stream has objects of the namespace. A line that cannot be read
is shown as BAD.

On a terminal lines are cut to its width and coloured (unless NO_COLOR is set). Unprintable characters are shown as
escapes. Into a pipe nothing is cut.

Exit status: 0, also after Ctrl-C and when the reader of a pipe goes away; 2 for a usage or config fault; 1 if the journal
cannot be read.`,
		Example: `  # the last ten lines and what comes, of the journal that kubejournal.yaml names
  kubejournal tail

  # what was deleted in the last two hours, in one namespace, and no more
  kubejournal tail --since 2h --type DELETED -n shop --no-follow /var/lib/kubejournal/journal.jsonl

  # deployments and pods as they change, as JSON for a program
  kubejournal tail --resource deploy,pods -N 0 -o json journal.jsonl | jq -r .name

  # what a pod of kubejournal writes to stdout
  kubectl logs -f deploy/kubejournal | kubejournal tail -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &usageError{cmd, fmt.Errorf("unexpected argument %q; it takes one FILE, and finds the rotated ones itself", args[1])}
			}
			return nil
		},
		RunE: f.run,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.FuncP("lines", "N", "show the last `N` lines first, or all; from stdin all (default 10)", f.setLines)
	flags.BoolVarP(&f.Follow, "follow", "f", true, "go on with lines that come")
	flags.BoolVar(&f.noFollow, "no-follow", false, "end with the last line that is there")
	flags.Func("resource", "show these `RESOURCE`s alone: pods, deploy, deployments.apps; may be repeated",
		each(&f.Filter.Resources, tail.ParseResource))
	flags.StringSliceVarP(&f.Filter.Namespaces, "namespace", "n", nil, "show objects of these `NAMESPACE`s alone; may be repeated")
	flags.Func("type", "show lines of these `TYPE`s alone: ADDED, MODIFIED, DELETED, GAP, SYNCED; may be repeated",
		each(&f.Filter.Types, tail.ParseType))
	complete(cmd, "type", tail.Types)
	flags.Func("since", "show lines since that `TIME`: 10m or 2h ago, or 2026-11-20T16:10:22Z", func(text string) (err error) {
		if text != "" {
			f.Filter.Since, err = tail.ParseSince(text, time.Now())
		}
		return err
	})
	addChoice(cmd, &f.output, "output", "o", "`FORMAT`: text, or json for the lines as they are", "text", "json")
	addChoice(cmd, &f.colour, "color", "", "`WHEN` to colour: auto (on a terminal), always or never", "auto", "always", "never")
	flags.StringVar(&f.config, "config", "", "config `FILE` that names the journal (default: as for run)")
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
		f.Lines = tail.All
		return nil
	}
	if f.Lines, err = strconv.Atoi(text); err != nil || f.Lines < 0 {
		return fmt.Errorf("%q is not a number of lines; write e.g. 10, 0 for new ones alone, or all", text)
	}
	return nil
}

func (f *tailFlags) run(cmd *cobra.Command, args []string) error {
	path, err := f.find(cmd, args)
	if err != nil {
		return err
	}
	stdin := path == config.Stdout
	if !cmd.Flags().Changed("lines") && (stdin || !f.Filter.Since.IsZero()) {
		f.Lines = tail.All // of stdin the last ones are known at the end only
	}
	f.Follow = f.Follow && !f.noFollow
	f.Notice = func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "kubejournal: %s\n", text) }
	f.Gone = func() bool { return tail.ReaderGone(cmd.OutOrStdout()) }
	style := tail.Terminal(cmd.OutOrStdout(), os.Getenv)
	style.JSON = f.output == "json"
	style.Colour = f.colour == "always" || style.Colour && f.colour == "auto"
	p := tail.NewPrinter(cmd.OutOrStdout(), style)
	// A reader that goes away, such as head, is the end and no fault.
	signal.Ignore(syscall.SIGPIPE)
	if stdin {
		err = tail.Stream(cmd.Context(), cmd.InOrStdin(), f.Options, p)
	} else {
		err = tail.File(cmd.Context(), path, f.Options, p)
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// find returns the journal's file: the argument, else that of the config that run would read.
func (f *tailFlags) find(cmd *cobra.Command, args []string) (string, error) {
	if len(args) > 0 && args[0] != "" {
		return args[0], nil
	}
	file, cfg, err := loadConfig(f.config, nil)
	switch {
	case file == "":
		return "", &usageError{cmd, errors.New("no journal named; name its FILE, - for stdin, or its config with --config FILE")}
	case err != nil:
		return "", err
	case cfg.Output.Path == config.Stdout:
		return "", &usageError{cmd, fmt.Errorf("%s keeps no journal file: its output.path is -; name a FILE, or pipe the lines into 'kubejournal tail -'", file)}
	}
	return cfg.Output.Path, nil
}
