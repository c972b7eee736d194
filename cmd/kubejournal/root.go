package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kubejournal/internal/ask/command"
	"kubejournal/internal/config"
	"kubejournal/internal/host/terminal"
	"kubejournal/internal/record/access"
)

// The exit statuses that users build on; exitNotCovered is another one.
const (
	exitOK    = 0
	exitFault = 1 // anything that is not the user's to mend on the command line or in the config
	exitUsage = 2 // a usage or config fault
)

// run is the whole program. Journal lines and answers go to stdout, everything else to stderr. Text goes there through
// the one writer that escapes what a terminal would act on; what writes JSON or YAML asks it for terminal.Raw.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out, notes := terminal.NewWriter(stdout, false), terminal.NewWriter(stderr, false)
	defer out.Close()   //nolint:errcheck // half a rune, of text that a reader of a pipe has left
	defer notes.Close() //nolint:errcheck // stderr: nobody else to tell
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(notes)
	ran, err := root.ExecuteContextC(ctx)
	return exitStatus(ran, err, notes)
}

// exitStatus reports the error of a command, once and as lines without a stack trace, and returns the exit status that
// goes with it.
func exitStatus(cmd *cobra.Command, err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	if s, ok := errors.AsType[statusError](err); ok {
		return int(s)
	}
	var faults config.Faults
	if errors.As(err, &faults) {
		for _, f := range faults {
			fmt.Fprintln(stderr, terminal.Line(f.Error()))
		}
		return exitUsage
	}
	text, status := err.Error(), exitFault
	usage, is := errors.AsType[usageError](err)
	if _, asked := errors.AsType[command.UsageError](err); is || asked {
		text = fmt.Sprintf("%s; see '%s --help'", text, cmp.Or(usage.of, cmd).CommandPath())
		status = exitUsage
	}
	terminal.Note(stderr, access.Hide(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")))
	return status
}

// usageError is a command line that makes no sense.
type usageError struct {
	error
	of *cobra.Command // whose help explains it; nil for the one that was run
}

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...), nil} }

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubejournal",
		Short: "Keep a journal of what happens to the objects of a Kubernetes cluster",
		Long: `kubejournal watches Kubernetes resources and writes one JSON line per change: what was created, changed or deleted, when,
and what the object looked like. After a restart it resumes where it stopped. If the server has dropped the history in
between, a line of its own says so.

'kubejournal completion' makes a shell complete commands, and names of resources, objects and namespaces from the journal.`,
		Example: `  # look at what happens to pods and deployments, now and in this terminal
  kubejournal run pods deployments

  # keep a durable journal of what a config file names
  kubejournal run --config kubejournal.yaml

  # find out from it what happened to a Deployment
  kubejournal history deploy/web -n shop

  # check that file without a cluster
  kubejournal validate --config kubejournal.yaml`,
		SilenceUsage:  true,
		SilenceErrors: true,
		// With both set, an unknown command comes here rather than to cobra, whose answer has several lines.
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = fmt.Errorf("--%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
			if errors.Is(err, strconv.ErrSyntax) && invalid.GetFlag().Value.Type() == "int" {
				err = fmt.Errorf("--%s: %q is not a number", invalid.GetFlag().Name, invalid.GetValue())
			}
		}
		return usageError{err, nil}
	})
	root.AddCommand(newRunCommand(), newValidateCommand(), newResourcesCommand(), newRBACCommand(),
		newCheckpointCommand(), newStatusCommand(), newTailCommand(), newHistoryCommand(), newGetCommand(),
		newDiffCommand(), newBlameCommand(), newWhyCommand(), newAuditCommand(), newCoverageCommand(),
		newServeCommand(), newMCPCommand(), newStatsCommand(), newIndexCommand(), newSchemaCommand(),
		newVersionCommand())
	asDeclared(root)
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.RunE = group // a slip must not be answered with text for a shell to run
		completion.Args = nil
	}
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, args []string) error {
			if of, rest, err := root.Find(args); err == nil && len(rest) > 0 {
				return group(of, rest)
			}
			return nil
		}
	}
	return root
}

// asDeclared has the help show the flags of commands in the order in which they were added.
func asDeclared(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	for _, c := range cmd.Commands() {
		asDeclared(c)
	}
}

// group is what a command does that only holds others.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "; did you mean " + near[0] + "?"
	}
	return usageError{fmt.Errorf("unknown command %q%s", args[0], hint), cmd}
}

// noArgs refuses arguments with a usage error.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	return nil
}
