package main

import (
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/mcp"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/host/terminal"
)

const mcpHelp = `Serve the questions as tools of the Model Context Protocol over stdin and stdout, for an agent that starts this program:
history, get, diff, blame, why and coverage. docs/mcp.md has the configuration of agents, and what tools take.

An answer has what the command prints with -o json, as far as there is room, and its doubts: what stderr says and, as
"certain", whether the exit status would not be 3. It says what was left out and how to ask for it. Each call reads the journal
as it is then. Times are in UTC.

The tools only read, and only the journals that are named here. stdout has the protocol alone; what goes wrong is on stderr.
`

func newMCPCommand() *cobra.Command {
	var f askFlags
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Answer the questions of an agent, as tools of the Model Context Protocol",
		Long: mcpHelp + journalHelp + `

Exit status: 0 when stdin ends, and after SIGTERM or SIGINT; 2 for a usage or config fault; 1 for anything else.`,
		Example: `  # Claude Code: add it as a server
  claude mcp add kubejournal -- kubejournal mcp --journal /var/lib/kubejournal/journal.jsonl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := f.again()
			paths, err := f.paths()
			if err != nil {
				return err
			}
			time.Local = time.UTC // before anything else runs
			// A client that is gone ends the reads of stdin as well.
			signal.Ignore(syscall.SIGPIPE)
			defer disk.RemoveTemporaries() // of calls that still run
			info, ok := debug.ReadBuildInfo()
			o := mcp.Options{
				Journals: paths, Flags: flags, Version: readBuild(info, ok).version, Log: cmd.ErrOrStderr(),
			}
			return mcp.Serve(cmd.Context(), o, cmd.InOrStdin(), terminal.Raw(cmd.OutOrStdout()))
		},
	}
	f.addJournal(cmd)
	return cmd
}
