package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"kubejournal/internal/config"
	"kubejournal/internal/tail"
)

// shownLines is how many lines tail shows first by default.
const shownLines = 10

// tailFlags are the flags of tail, as the user wrote them.
type tailFlags struct {
	config, lines, since, output, colour string
	follow, noFollow                     bool
	resources, namespaces, types         []string
}

func newTailCommand() *cobra.Command {
	var f tailFlags
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
	flags.StringVarP(&f.lines, "lines", "N", strconv.Itoa(shownLines), "show the last `N` lines first, or all; from stdin all")
	flags.BoolVarP(&f.follow, "follow", "f", true, "go on with lines that come")
	flags.BoolVar(&f.noFollow, "no-follow", false, "end with the last line that is there")
	flags.StringSliceVar(&f.resources, "resource", nil, "show these `RESOURCE`s alone: pods, deploy, deployments.apps; may be repeated")
	flags.StringSliceVarP(&f.namespaces, "namespace", "n", nil, "show objects of these `NAMESPACE`s alone; may be repeated")
	flags.StringSliceVar(&f.types, "type", nil, "show lines of these `TYPE`s alone: ADDED, MODIFIED, DELETED, GAP, SYNCED; may be repeated")
	flags.StringVar(&f.since, "since", "", "show lines since that `TIME`: 10m or 2h ago, or 2026-11-20T16:10:22Z")
	flags.StringVarP(&f.output, "output", "o", "text", "`FORMAT`: text, or json for the lines as they are")
	flags.StringVar(&f.colour, "color", "auto", "`WHEN` to colour: auto (on a terminal), always or never")
	flags.StringVar(&f.config, "config", "", "config `FILE` that names the journal (default: as for run)")
	for flag, choices := range map[string][]string{
		"type": tail.Types, "output": {"text", "json"}, "color": {"auto", "always", "never"},
	} {
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // the flag stands above
		}
	}
	return cmd
}

func (f *tailFlags) run(cmd *cobra.Command, args []string) error {
	o, err := f.options(cmd, time.Now())
	if err != nil {
		return &usageError{cmd, err}
	}
	style, err := f.style(cmd.OutOrStdout())
	if err != nil {
		return &usageError{cmd, err}
	}
	path, err := f.find(cmd, args)
	if err != nil {
		return err
	}
	// A reader that goes away, such as head, is the end and no fault.
	signal.Ignore(syscall.SIGPIPE)
	p := tail.NewPrinter(cmd.OutOrStdout(), style)
	o.Notice = func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "kubejournal: %s\n", text) }
	o.Gone = func() bool { return readerGone(cmd.OutOrStdout()) }
	if path == config.Stdout {
		if !cmd.Flags().Changed("lines") {
			o.Lines = tail.All // they come as they are written; the last ones are known at the end only
		}
		err = tail.Stream(cmd.Context(), cmd.InOrStdin(), o, p)
	} else {
		err = tail.File(cmd.Context(), path, o, p)
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
	file, err := configPath(f.config, nil, os.LookupEnv)
	if err != nil {
		return "", &usageError{cmd, errors.New("no journal named; name its FILE, - for stdin, or its config with --config FILE")}
	}
	cfg, err := config.Load(file, config.Overrides{}, os.LookupEnv)
	if err != nil {
		return "", err
	}
	if cfg.Output.Path == config.Stdout {
		return "", &usageError{cmd, fmt.Errorf("%s keeps no journal file: its output.path is -; name a FILE, or pipe the lines into 'kubejournal tail -'", file)}
	}
	return cfg.Output.Path, nil
}

// options reads the flags that say which lines.
func (f *tailFlags) options(cmd *cobra.Command, now time.Time) (o tail.Options, err error) {
	o.Follow = f.follow && !f.noFollow
	if o.Lines, err = parseLines(f.lines); err != nil {
		return o, err
	}
	if f.since != "" {
		if o.Filter.Since, err = tail.ParseSince(f.since, now); err != nil {
			return o, fmt.Errorf("--since: %w", err)
		}
		if !cmd.Flags().Changed("lines") {
			o.Lines = tail.All
		}
	}
	for _, text := range f.resources {
		r, err := tail.ParseResource(text)
		if err != nil {
			return o, fmt.Errorf("--resource: %w", err)
		}
		o.Filter.Resources = append(o.Filter.Resources, r)
	}
	for _, text := range f.types {
		t, err := tail.ParseType(text)
		if err != nil {
			return o, fmt.Errorf("--type: %w", err)
		}
		o.Filter.Types = append(o.Filter.Types, t)
	}
	o.Filter.Namespaces = f.namespaces
	return o, nil
}

func parseLines(text string) (int, error) {
	if text == "all" {
		return tail.All, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("--lines: %q is not a number of lines; write e.g. 10, 0 for new ones alone, or all", text)
	}
	return n, nil
}

// style reads the flags that say how lines look.
func (f *tailFlags) style(stdout io.Writer) (tail.Style, error) {
	s := tail.Style{Width: terminalWidth(stdout)}
	switch f.output {
	case "text":
	case "json":
		s.JSON = true
	default:
		return s, fmt.Errorf("--output: %q is not known; write text or json", f.output)
	}
	switch f.colour {
	case "auto":
		s.Colour = s.Width != nil && wantsColour(os.Getenv)
	case "always":
		s.Colour = true
	case "never":
	default:
		return s, fmt.Errorf("--color: %q is not known; write auto, always or never", f.colour)
	}
	return s, nil
}

// wantsColour reports whether a terminal is to be coloured: see https://no-color.org; dumb terminals cannot.
func wantsColour(env func(string) string) bool {
	return env("NO_COLOR") == "" && env("TERM") != "dumb"
}

// terminalWidth returns how to ask for the width of the terminal behind w, nil where it is none.
func terminalWidth(w io.Writer) func() int {
	const usual = 80 // where a terminal does not say
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	fd := int(f.Fd())
	return func() int {
		width, _, err := term.GetSize(fd)
		if err != nil || width <= 0 {
			return usual
		}
		return width
	}
}

// readerGone reports whether w is a pipe whose reader has gone, or a terminal that was hung up.
func readerGone(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
}
