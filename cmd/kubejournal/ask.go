package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/cluster"
	"kubejournal/internal/ask/command"
	"kubejournal/internal/ask/follow"
	"kubejournal/internal/config"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/host/pager"
	"kubejournal/internal/host/terminal"
)

// exitNotCovered says that an answer may not be complete: it depends on a time at which nobody watched, or on lines
// that are gone. The doubts have been printed.
const exitNotCovered = 3

// statusError is an exit status about which nothing is left to say.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// askFlags are what the commands have in common that ask a journal.
type askFlags struct {
	command.Request
	config  string
	all     bool
	paged   bool
	noPager bool
}

// journalHelp is a part of their help.
const journalHelp = `
The journal's files are read: no cluster and no daemon is needed, and a daemon may be writing to them. --journal names the
active file; the default is output.path of the config that run would read. The journals of several replicas, or shards, are
shown as one: name each with a --journal of its own. They are merged in TMPDIR first; seq counts the merged lines.`

// clustersHelp is a part of it for the commands that ask several clusters together.
const clustersHelp = `
Journals of several clusters are asked together: --journal names them all, and --cluster the clusters to ask. Text then has a
column or a heading for the cluster, JSON a field "cluster", and stderr says of which cluster it speaks. A cluster is called
by the name that "cluster" in its config gives it; without one, by the first 8 characters of its clusterUID. What one cluster
does not have is an error only if no other one has it. seq: and rv: are for one cluster; so is output that kubectl takes
(-o yaml, --clean, and of get -o name and json).
`

// timeHelp is a part of the help of each command that takes times.
const timeHelp = `
A TIME is one of
  now, today, yesterday                of a day its 00:00
  90m, 2d, 1w, '30 seconds ago'        so long ago, also as -90m
  14:02, 'yesterday 14:02'             of today or yesterday, in the local time zone; also with seconds
  2026-11-20, '2026-11-20 14:02'       of that day
  '2026-11-20 14:02 UTC'               of that zone, as 2026-11-20T14:02:00Z and '2026-11-20 15:02+01:00'
  1795183320, 1795183320000            Unix seconds, milliseconds
  seq:1234                             the journal's line of that number
`

// versionHelp continues with it where versions of the server are taken too.
const versionHelp = "  rv:1234                              a resourceVersion of the server, for one resource\n"

// pagerHelp is a part of the help of the commands whose text is paged.
const pagerHelp = `
Text on a terminal is shown in a pager: $PAGER, or less. There is none with --no-pager, where PAGER is empty or cat, where
TERM is dumb and PAGER is not set, and where stdin or stdout is no terminal. less gets the options of $LESS, or FRX: it ends
at once if all fits on the screen.
`

// statusHelp explains the exit status in the help.
const statusHelp = `
Exit status: 0; 2 for a usage or config fault; 1 if the journal cannot be read or has nothing of that name; 3 if the answer
depends on a time that is not covered: stderr names streams and interval. Where no end is named, or no moment, that is the
last time that is covered, and stderr says as of when the answer is, if it is not now.`

func (f *askFlags) add(cmd *cobra.Command, outputs string, formats ...string) {
	flags := cmd.Flags()
	flags.StringSliceVarP(&f.Namespaces, "namespace", "n", nil, "objects of these `NAMESPACE`s alone; may be repeated")
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "objects of all namespaces, whatever -n says; the default")
	addChoice(cmd, &f.Output, "output", "o", outputs, formats...)
	f.addJournal(cmd)
	flags.StringSliceVar(&f.Clusters, "cluster", nil, "journals of these `CLUSTER`s alone; may be repeated")
	completeNames(cmd, func(cmd *cobra.Command, args []string) (paths, objects []string, err error) {
		named, err := f.paths()
		if err != nil {
			return nil, nil, err
		}
		all, err := command.Clusters(cmd.Context(), named, f.Clusters, func(string) {})
		for _, c := range all {
			paths = append(paths, c.Paths...)
		}
		return paths, args, err
	}, &f.Namespaces)
	completeFlag(cmd, "cluster", completer(func(*cobra.Command, []string) (paths, _ []string, err error) {
		paths, err = f.paths()
		return paths, nil, err
	}, clusterNames))
}

func (f *askFlags) addJournal(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.Journals, "journal", nil,
		"the journal's active `FILE`; may be repeated, for those of replicas, shards and clusters")
	cmd.Flags().StringVar(&f.config, "config", "", "config `FILE` that names the journal (default: as for run)")
}

// paths returns the paths of the journals' active files.
func (f *askFlags) paths() ([]string, error) {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		// Most of what an answer needs is soon garbage: it may take memory, up to a bound, and then takes time.
		debug.SetGCPercent(200)
		debug.SetMemoryLimit(56 << 20)
	}
	if len(f.Journals) > 0 {
		return f.Journals, checkJournals(f.Journals)
	}
	path, err := journalOf(f.config, "one with --journal FILE", "name one with --journal FILE")
	return []string{path}, err
}

// journalOf returns the journal's active file that the config has, which --config names, or run would read. An error
// says how to name another.
func journalOf(configFlag, one, instead string) (string, error) {
	file, cfg, err := loadConfig(configFlag, nil)
	switch {
	case file == "":
		return "", usagef("no journal named; name %s, or its config with --config FILE", one)
	case err != nil:
		return "", err
	case cfg.Output.Path == config.Stdout:
		return "", usagef("%s keeps no journal file: its output.path is -; %s", file, instead)
	}
	return cfg.Output.Path, nil
}

// checkJournals returns a usageError if a journal is named twice.
func checkJournals(paths []string) error {
	for i, path := range paths {
		if slices.ContainsFunc(paths[:i], func(other string) bool { return same(path, other) }) {
			return usagef("journal %s is named twice", path)
		}
	}
	return nil
}

// same reports whether two paths are of one file.
func same(a, b string) bool {
	if disk.Absolute(a) == disk.Absolute(b) {
		return true
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// ask asks the journals a question about the objects that arguments name.
func (f *askFlags) ask(cmd *cobra.Command, args []string, q command.Question) error {
	f.Objects = args
	if f.all {
		f.Namespaces = nil
	}
	if err := q.Prepare(&f.Request); err != nil {
		return err
	}
	var running answering
	return running.run(cmd.Context(), func() error { return f.asking(cmd, q, &running) })
}

func (f *askFlags) asking(cmd *cobra.Command, q command.Question, running *answering) error {
	f.Flags = f.again()
	var err error
	if f.Journals, err = f.paths(); err != nil {
		return err
	}
	// A reader that goes away, such as head, is the end and no fault.
	signal.Ignore(syscall.SIGPIPE)
	o := &answer.Output{Writer: cmd.OutOrStdout(), Notes: cmd.ErrOrStderr()}
	if width := follow.Terminal(o.Writer, os.Getenv).Width; width != nil {
		o.Terminal, o.Width = true, width()
	}
	opened, err := f.Open(cmd.Context(), o)
	defer opened.Close() //nolint:staticcheck // what is returned with an error is closed too
	if err != nil {
		return f.status(err)
	}
	answer := func() error { return f.Answer(cmd.Context(), q, opened, o) }
	if f.paged = f.paged && !f.noPager; !f.paged {
		return f.status(answer())
	}
	page := pager.Start(cmd.Context(), cmd.InOrStdin(), terminal.Raw(o.Writer), os.LookupEnv, func(err error) {
		terminal.Note(o.Notes, fmt.Sprintf("no pager: %v", err))
	})
	running.page.Store(page)
	o.Writer, o.Notes = terminal.NewWriter(page, false), terminal.NewWriter(page.Notes(terminal.Raw(o.Notes)), false)
	err = answer()
	return f.status(errors.Join(err, page.Close()))
}

// status returns the error that goes with what an answer came to.
func (f *askFlags) status(err error) error {
	switch {
	case errors.Is(err, syscall.EPIPE) || f.paged && pager.Quit(err):
		return nil
	case errors.Is(err, answer.ErrRefused) || errors.Is(err, answer.ErrDifferent) ||
		errors.Is(err, cluster.ErrUnknown):
		return statusError(exitFault)
	case errors.Is(err, answer.ErrNotCovered):
		return statusError(exitNotCovered)
	}
	return err
}

// again returns the flags that name the same journals.
func (f *askFlags) again() (flags []string) {
	for _, path := range f.Journals {
		flags = append(flags, "--journal", path)
	}
	if f.config != "" {
		flags = append(flags, "--config", f.config)
	}
	return flags
}

// addTime adds a flag that takes a TIME.
func addTime(cmd *cobra.Command, m *argument.Moment, flag, usage string) {
	cmd.Flags().Func(flag, usage, func(text string) (err error) {
		*m, err = command.ParseTime(flag, text)
		return err
	})
}

// addPager adds the flag of a command whose text is paged.
func (f *askFlags) addPager(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.noPager, "no-pager", false, "print text on a terminal as it is, without a pager")
}
