package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/argument"
	past "kubejournal/internal/ask/serve"
	"kubejournal/internal/host/terminal"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	askFlags
	at, from, to                  argument.Moment
	speed                         float64
	listen, kubeconfig, tokenFile string
}

const serveHelp = `Serve a moment of the journal as a Kubernetes API that can be read only, so that kubectl, k9s, Headlamp and programs look at
the past. With --at it is the state at that TIME; without it, now as far as the journal says, request by request. With
--from the moment begins at that TIME and moves on, and watches get what happened then.

Lists have selectors, pages and the tables that kubectl prints; what writes, and logs, exec and port-forward, is refused. What
nobody watched is an empty list, with a warning that kubectl prints; so is every other doubt. Redacted values stay redacted.

A browser gets the page of 'kubejournal report' there, of the last hour before the moment, or of the objects and the time that
it asks for.

--to has a server that runs serve another moment: that of the kubeconfig, or at --listen. Watches end, and clients list again.

It listens on this machine alone unless --listen names another address; then clients need a token: that of --token-file, or one
that is made and written to the kubeconfig. The connection is not encrypted.
`

func newServeCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [--at TIME]",
		Short: "Serve the past as a read-only Kubernetes API",
		Long: serveHelp + timeHelp + journalHelp + `
The journals are of one cluster; --cluster names it where they are of several.

Exit status: 0 after SIGTERM or SIGINT, 2 for a usage or config fault, 1 for anything else.`,
		Example: `  # the cluster as it was at two, for kubectl
  kubejournal serve --at 14:02 --kubeconfig past.yaml &
  kubectl --kubeconfig past.yaml get pods -A

  # an hour again, ten times as fast
  kubejournal serve --from 'yesterday 14:00' --speed 10 --kubeconfig past.yaml

  # move that server on by a minute
  kubejournal serve --to 14:03 --kubeconfig past.yaml`,
		Args: noArgs,
		RunE: f.run,
	}
	flags := cmd.Flags()
	addTime(cmd, &f.at, "at", "serve the state at that `TIME` (default: now)")
	addTime(cmd, &f.from, "from", "begin at that `TIME` and move on")
	addTime(cmd, &f.to, "to", "have a server that runs serve that `TIME`, or now")
	flags.Float64Var(&f.speed, "speed", 1, "with --from: `TIMES` as fast as time goes")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8001", "`ADDR`ess to listen on")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "write a kubeconfig for clients to that `FILE`")
	flags.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the token that clients need")
	f.addJournal(cmd)
	flags.StringSliceVar(&f.Clusters, "cluster", nil, "serve this `CLUSTER` of the journals")
	return cmd
}

func (f *serveFlags) run(cmd *cobra.Command, _ []string) error {
	token, err := f.check(cmd)
	if err != nil {
		return err
	}
	notes := cmd.ErrOrStderr()
	notice := func(text string) { terminal.Note(notes, text) }
	ctx := cmd.Context()
	if !f.to.IsZero() {
		return f.move(ctx, token, notice)
	}
	if f.Journals, err = f.paths(); err != nil {
		return err
	}
	paths, err := f.OneCluster(ctx, "serve", f.at, notice)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(64 << 20) // a bound that it keeps to, unless several ask for much at once
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("%w; name another address with --listen", err)
	}
	s, err := past.New(ctx, past.Options{
		Paths: paths, Flags: f.again(), At: f.at, From: f.from.Time, Speed: f.speed, Token: token,
		Hosts: past.HostsOf(l.Addr()), Notice: notice,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer s.Close()
	url := "http://" + past.Reach(l.Addr())
	if f.kubeconfig != "" {
		if err := past.WriteKubeconfig(f.kubeconfig, url, token); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	notice(fmt.Sprintf("serving the past, %s, at %s", s.When(), url))
	notice("a page about what happened is at " + url + "/")
	if f.kubeconfig != "" {
		notice("look at it with: kubectl --kubeconfig " + terminal.ShellWord(f.kubeconfig) + " get pods -A")
	}
	return s.Serve(ctx, l)
}

// move has a server that runs serve another moment.
func (f *serveFlags) move(ctx context.Context, token string, notice func(string)) (err error) {
	url := "http://" + f.listen
	if f.kubeconfig != "" {
		if url, token, err = past.ReadKubeconfig(f.kubeconfig); err != nil {
			return err
		}
	}
	says, err := past.MoveServer(ctx, url, token, f.to)
	if err != nil {
		return fmt.Errorf("no server was moved: %w", err)
	}
	notice(fmt.Sprintf("%s serves the past, %s", url, says))
	return nil
}

// check reads the flags, and returns the token that clients need; none is empty.
func (f *serveFlags) check(cmd *cobra.Command) (token string, err error) {
	moves := !f.to.IsZero()
	for _, flag := range []string{"at", "from", "speed", "journal", "config", "cluster"} {
		if moves && cmd.Flags().Changed(flag) {
			return "", usagef("--to moves a server that runs, and takes no --%s", flag)
		}
	}
	switch {
	case f.to.Version > 0:
		return "", usagef("rv: is for one resource; write a time, or seq:")
	case moves && f.kubeconfig != "" && f.tokenFile != "":
		return "", usagef("the kubeconfig has the server's token; leave out --token-file")
	case !f.at.IsZero() && !f.from.IsZero():
		return "", usagef("--at is a moment that stays, and --from one that moves on; write one of them")
	case f.at.Version > 0:
		return "", usagef("rv: is for one resource; write a time, or seq:")
	case f.from.Seq+f.from.Version > 0:
		return "", usagef("--from takes a time, not %s", f.from)
	case cmd.Flags().Changed("speed") && f.from.IsZero():
		return "", usagef("--speed goes with --from")
	case !(f.speed > 0 && f.speed <= 1e6):
		return "", usagef("--speed must be more than 0 and at most 1000000")
	}
	if f.tokenFile != "" {
		text, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		if token = strings.TrimSpace(string(text)); len(token) < 16 || strings.ContainsAny(token, " \r\n\t") {
			return "", usagef("--token-file %s: a token is one line of at least 16 characters without spaces",
				f.tokenFile)
		}
		return token, nil
	}
	if moves || !past.NeedsToken(f.listen) {
		return "", nil
	}
	if f.kubeconfig == "" {
		return "", usagef("%s is not loopback, so clients need a token: name a file with one with --token-file, or a "+
			"kubeconfig to write one to with --kubeconfig", f.listen)
	}
	return past.NewToken(), nil
}
