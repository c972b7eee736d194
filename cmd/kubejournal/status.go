package main

import (
	"os"
	"time"

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
			at, err := statusAddress(address, configFlag)
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
			return now.WriteText(cmd.OutOrStdout(), at, time.Now())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&configFlag, "config", "", "config `FILE` of the daemon (default: as for run)")
	flags.StringVar(&address, "address", "", "`HOST:PORT` where the daemon listens (default: listen of the config)")
	addChoice(cmd, &output, "output", "o", "`FORMAT`: table, or json for what /streams says", "table", "json")
	return cmd
}

// statusAddress returns where to ask: the flag's address, else that of the config that run would read, else the
// default.
func statusAddress(address, configFlag string) (string, error) {
	from := "--address"
	if address == "" {
		path, err := config.Find(configFlag, nil, os.LookupEnv)
		if err != nil {
			from, address = "the default", config.Default().Listen // a daemon may run without a config
		} else {
			from = path + ": listen"
			if address, err = config.ListenAddress(path, os.LookupEnv); err != nil {
				return "", err
			}
		}
		if address == "" {
			return "", usagef("%s: a daemon with this config listens nowhere; set listen, or name where it listens with "+
				"--address HOST:PORT", path)
		}
	}
	at, err := status.Reach(address)
	if err != nil {
		return "", usagef("%s: %w", from, err)
	}
	return at, nil
}
