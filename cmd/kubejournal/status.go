package main

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"kubejournal/internal/config"
	"kubejournal/internal/host/terminal"
	"kubejournal/internal/record/status"
)

func newStatusCommand() *cobra.Command {
	var configFlag, address, output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the streams of a running daemon",
		Long: `Show a running daemon and each of its streams: the state, the resourceVersion up to which everything is in the journal,
and the age of the last event or bookmark and of the last gap. Above them: the version, whether the daemon is ready and
why not, the result of the last config reload, an outage of the API server, and the files: where they are, how far back
the journal reaches, and how much space is left.

The daemon is asked at --address, or where the config says that it listens (127.0.0.1 for all addresses), or at
127.0.0.1:8080.

A stream is in one of these states:
  Starting  it has not asked the server yet
  Listing   it compares what exists with what it has written
  Watching  events come in
  Retrying  the last session failed, for the reason shown. Beside another state, the reason is why the session
            before this one failed. In an outage of the API server the reason is shown above, once
  Pending   the server does not have the resource, or this identity may not watch it; it is retried

Exit status: 0, 2 for a usage or config fault, 1 if no daemon answers.`,
		Example: `  kubejournal status --config kubejournal.yaml

  # of a daemon in a cluster
  kubectl port-forward deploy/kubejournal 8080 &
  kubejournal status --address 127.0.0.1:8080

  # the streams that do not watch
  kubejournal status -o json | jq '.[] | select(.state != "Watching")'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := statusAddress(cmd, address, configFlag)
			if err != nil {
				return err
			}
			if output == "json" {
				body, err := status.Fetch(cmd.Context(), at, "/streams")
				if err != nil {
					return err
				}
				_, err = terminal.Raw(cmd.OutOrStdout()).Write(body)
				return err
			}
			now, err := status.FetchStatus(cmd.Context(), at)
			if err != nil {
				return err
			}
			return writeStatus(cmd.OutOrStdout(), at, now, time.Now())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&configFlag, "config", "", "config `FILE` of the daemon (default: as for run)")
	flags.StringVar(&address, "address", "", "`HOST:PORT` where the daemon listens (default: listen of the config)")
	addChoice(cmd, &output, "output", "o", "`FORMAT`: table, or json for what /streams says", "table", "json")
	return cmd
}

// statusAddress returns where to ask: the flag's address, else that of the config that run would read, else the
// default.
func statusAddress(cmd *cobra.Command, address, configFlag string) (string, error) {
	from := "--address"
	if address == "" {
		path, err := configPath(configFlag, nil, os.LookupEnv)
		if err != nil {
			from, address = "the default", config.Default().Listen // a daemon may run without a config
		} else {
			from = path + ": listen"
			if address, err = config.ListenAddress(path, os.LookupEnv); err != nil {
				return "", err
			}
		}
		if address == "" {
			return "", &usageError{cmd,
				fmt.Errorf("%s: a daemon with this config listens nowhere; set listen, or name where it listens with "+
					"--address HOST:PORT", path)}
		}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", &usageError{cmd, fmt.Errorf("%s: %q is no address and port; write 127.0.0.1:8080", from, address)}
	}
	if port == "0" {
		return "", &usageError{cmd,
			fmt.Errorf("%s: %q is any free port; the daemon's log says which it took: name it with --address HOST:PORT",
				from, address)}
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}

// writeStatus shows the daemon, then its streams as a table.
func writeStatus(w io.Writer, address string, s *status.Status, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		for i, c := range cells {
			cells[i] = printable(c)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("address", address)
	row("version", s.Version)
	if !s.Started.IsZero() {
		row("up", status.Age(now, s.Started))
	}
	ready := "yes"
	if !s.Ready {
		ready = "no"
	}
	row("ready", ready)
	for _, c := range s.Checks {
		switch {
		case !c.OK:
			row("", c.Name+" failed: "+c.Text)
		case c.Text != "":
			row("", c.Name+": "+c.Text)
		}
	}
	if s.Server != "" {
		row("server", s.Server)
	}
	if s.Config != "" {
		row("config", s.Config)
	}
	if j := s.Journal; j != nil {
		row("journal", pathText(j.Path, "stdout"))
		row("", journalText(j, now))
	}
	if c := s.Checkpoint; c != nil {
		row("checkpoint", pathText(c.Path, "none: a restart starts over")+freeText(c.Space))
	}
	fmt.Fprintln(t)
	row("STREAM", "STATE", "POSITION", "PROGRESS", "GAP")
	for _, one := range s.Streams {
		row(one.Stream, stateText(&one), cmp.Or(one.ResourceVersion, "-"), ago(now, one.LastProgress),
			ago(now, one.LastGap))
	}
	return t.Flush()
}

// stateText is a stream's state with its reason, unless that is said above.
func stateText(s *status.Stream) string {
	if s.Unreachable || s.Reason == "" {
		return s.State
	}
	why := s.Reason
	if s.AwaitsCRD() {
		why = status.AwaitsCRD
	}
	if s.DidYouMean != "" {
		why += ", did you mean " + s.DidYouMean + "?"
	}
	return s.State + " (" + why + ")"
}

// pathText is a path, or other where it names no file.
func pathText(path, other string) string {
	if path == "" || path == config.Stdout {
		return other
	}
	return path
}

// journalText says how far the journal reaches.
func journalText(j *status.Journal, now time.Time) string {
	text := fmt.Sprintf("up to seq %d", j.Seq)
	if !j.Oldest.IsZero() {
		text += fmt.Sprintf(", back to %s (%s)", j.Oldest.UTC().Format(time.RFC3339), status.Age(now, j.Oldest))
	}
	if j.Segments > 1 {
		text += fmt.Sprintf(", %d files", j.Segments)
	}
	return text + freeText(j.Space)
}

// freeText is the free space as the end of a list, "" where it is not known.
func freeText(s status.Space) string {
	if s.Size == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of %s free", status.Bytes(s.Free), status.Bytes(s.Size))
}

// ago is how long ago something was, or - where it never was.
func ago(now, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return status.Age(now, at) + " ago"
}

// printable keeps what others have sent from acting on the terminal, or on the table.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
