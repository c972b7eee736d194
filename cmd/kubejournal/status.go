package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"kubejournal/internal/config"
	"kubejournal/internal/ops"
)

const (
	// statusTimeout is how long a daemon may take to answer.
	statusTimeout = 5 * time.Second
	// maxAnswer bounds what is read of one answer, in bytes.
	maxAnswer = 64 << 20
)

func newStatusCommand() *cobra.Command {
	var configFlag, address, output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the streams of a running daemon",
		Long: `Ask a running daemon how it stands, and show each stream: its state, the resourceVersion up to which everything stands in
the journal, how long ago the last event or bookmark came, and how long ago the last gap was. Above them stand the
version, whether the daemon is ready and why not, and what came of the last edit of its config.

The daemon is asked at --address, else where the config says that it listens (at 127.0.0.1 where that is every address),
else at 127.0.0.1:8080.

A stream's state is one of
  Starting  it has not asked the server yet
  Listing   it compares what exists with what it has told
  Watching  events come in
  Retrying  the last session failed; the reason is shown beside it. Beside another state, it is why the session
            before this one failed
  Pending   the server does not have the resource, or not for this identity; tried again

Exit status: 0, 2 for a usage or config fault, 1 where nobody answers.`,
		Example: `  kubejournal status --config kubejournal.yaml

  # of a daemon in a cluster
  kubectl port-forward deploy/kubejournal 8080 &
  kubejournal status --address 127.0.0.1:8080

  # the streams that do not watch
  kubejournal status -o json | jq '.[] | select(.state != "Watching")'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return &usageError{cmd, fmt.Errorf("--output: %q is not known; write table or json", output)}
			}
			at, err := statusAddress(cmd, address, configFlag)
			if err != nil {
				return err
			}
			a := asker{at: at, client: &http.Client{Transport: &http.Transport{}, Timeout: statusTimeout}}
			defer a.client.CloseIdleConnections()
			streams, err := a.get(cmd.Context(), "/streams", http.StatusOK)
			if err != nil {
				return err
			}
			if output == "json" {
				_, err = cmd.OutOrStdout().Write(streams)
				return err
			}
			s, err := a.status(cmd.Context(), streams)
			if err != nil {
				return err
			}
			return s.write(cmd.OutOrStdout(), time.Now())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&configFlag, "config", "", "config `FILE` of the daemon (default: as for run)")
	flags.StringVar(&address, "address", "", "`HOST:PORT` where the daemon listens (default: listen of the config)")
	flags.StringVarP(&output, "output", "o", "table", "`FORMAT`: table, or json for what /streams says")
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag stands above
	}
	return cmd
}

// statusAddress returns where to ask: the flag's address, else that of the config that run would read, else the default.
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
			return "", &usageError{cmd, fmt.Errorf("%s: a daemon with this config listens nowhere; set listen, or name where it listens with --address HOST:PORT", path)}
		}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", &usageError{cmd, fmt.Errorf("%s: %q is no address and port; write 127.0.0.1:8080", from, address)}
	}
	if port == "0" {
		return "", &usageError{cmd, fmt.Errorf("%s: %q is any free port; the daemon's log says which it took: name it with --address HOST:PORT", from, address)}
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}

// asker asks a daemon.
type asker struct {
	at     string
	client *http.Client
}

func (a asker) get(ctx context.Context, path string, wanted ...int) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.at+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", a.at, err)
	}
	response, err := a.client.Do(request)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // the rest is the address again
		}
		return nil, fmt.Errorf("no kubejournal answers at %s: %w; is it running, and does it listen there? name another place with --address HOST:PORT", a.at, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", a.at, err)
	}
	for _, status := range wanted {
		if response.StatusCode == status {
			return body, nil
		}
	}
	return nil, fmt.Errorf("what answers at %s is no kubejournal: %s to %s; name another place with --address HOST:PORT", a.at, response.Status, path)
}

// daemonStatus is how a daemon stands.
type daemonStatus struct {
	at      string
	version string
	started time.Time // zero where it does not say
	ready   bool
	checks  []readyCheck
	streams []streamStatus
}

// readyCheck is one line of /readyz?verbose.
type readyCheck struct {
	name, text string // text is what is wrong, or worth knowing
	ok         bool
}

// streamStatus is what is shown of one entry of /streams.
type streamStatus struct {
	Stream, State, Reason, ResourceVersion string
	LastProgress, LastGap                  time.Time
}

// status asks for the rest.
func (a asker) status(ctx context.Context, streams []byte) (*daemonStatus, error) {
	s := &daemonStatus{at: a.at}
	if err := json.Unmarshal(streams, &s.streams); err != nil {
		return nil, fmt.Errorf("what answers at %s is no kubejournal: its /streams is no list of streams; name another place with --address HOST:PORT", a.at)
	}
	ready, err := a.get(ctx, "/readyz?verbose", http.StatusOK, http.StatusServiceUnavailable)
	if err != nil {
		return nil, err
	}
	s.readReady(string(ready))
	metrics, err := a.get(ctx, "/metrics", http.StatusOK)
	if err != nil {
		return nil, err
	}
	s.readMetrics(string(metrics))
	return s, nil
}

// readReady takes what /readyz?verbose says, in the form of Kubernetes' own endpoints.
func (s *daemonStatus) readReady(text string) {
	s.ready = true
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "[+]"); ok {
			name, note, _ := strings.Cut(rest, " ok")
			s.checks = append(s.checks, readyCheck{name, strings.TrimPrefix(note, ": "), true})
		} else if rest, ok := strings.CutPrefix(line, "[-]"); ok {
			name, why, _ := strings.Cut(rest, " failed: ")
			s.checks = append(s.checks, readyCheck{name, why, false})
			s.ready = false
		}
	}
}

// readMetrics takes the version and the start from /metrics.
func (s *daemonStatus) readMetrics(text string) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.HasPrefix(name, "kubejournal_build_info{"):
			_, rest, _ := strings.Cut(line, `version="`)
			if i := strings.Index(line, `,version="`); i >= 0 { // goversion ends so too
				rest = line[i+len(`,version="`):]
			}
			s.version, _, _ = strings.Cut(rest, `"`)
		case name == "process_start_time_seconds":
			if seconds, err := strconv.ParseFloat(value, 64); err == nil {
				s.started = time.Unix(0, int64(seconds*1e9))
			}
		}
	}
}

func (s *daemonStatus) write(w io.Writer, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		for i, c := range cells {
			cells[i] = printable(c)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("address", s.at)
	row("version", s.version)
	if !s.started.IsZero() {
		row("up", ops.Age(now, s.started))
	}
	ready := "yes"
	if !s.ready {
		ready = "no"
	}
	row("ready", ready)
	for _, c := range s.checks {
		switch {
		case !c.ok:
			row("", c.name+" failed: "+c.text)
		case c.text != "":
			row("", c.name+": "+c.text)
		}
	}
	fmt.Fprintln(t)
	row("STREAM", "STATE", "POSITION", "PROGRESS", "GAP")
	for _, one := range s.streams {
		state := one.State
		if one.Reason != "" {
			state += " (" + one.Reason + ")"
		}
		position := one.ResourceVersion
		if position == "" {
			position = "-"
		}
		row(one.Stream, state, position, ago(now, one.LastProgress), ago(now, one.LastGap))
	}
	return t.Flush()
}

// ago is how long ago something was, or - where it never was.
func ago(now, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return ops.Age(now, at) + " ago"
}

// printable keeps what somebody else has sent from acting on the terminal, or on the table.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
