package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"kubejournal/internal/ask/follow"
	"kubejournal/internal/config"
	"kubejournal/internal/host/logging"
	"kubejournal/internal/host/terminal"
	"kubejournal/internal/record/daemon"
	"kubejournal/internal/record/status"
)

// formatEnv is the variable for --format.
const formatEnv = "KUBEJOURNAL_FORMAT"

// runFlags are the flags of run that set no key of the config.
type runFlags struct {
	config, namespace, format, profile string
	changes                            bool
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [RESOURCE...]",
		Short: "Run the daemon: watch resources and write the journal",
		Long: `Watch resources and write one JSON line per change, until SIGTERM or SIGINT. A later signal exits at once; within 0.2 s
it is taken for the same request.

RESOURCE is what kubectl get takes: pods, deploy, deployments.apps, deployments.v1.apps. All namespaces are watched
unless -n names one. A name that the server does not have is a fault, unless it may be a custom resource that is still to
come, as widgets.example.com. MODIFIED lines list the changed fields, unless --changes=false; with a config, as that says.

With RESOURCEs and no config, the journal goes to stdout, no checkpoint is kept unless --checkpoint names one, and no
port is opened unless --listen names one. On a terminal the lines are shown as by 'kubejournal tail'; into a pipe, or with
--format json, they are JSON. With a config, RESOURCEs replace its list of resources; the rest stays as configured.

Without either, ./kubejournal.yaml, which must be yours or root's, and then /etc/kubejournal/kubejournal.yaml is read.
A flag overrides its environment variable, which overrides the config file, which overrides the default. The variables are
KUBEJOURNAL_CONFIG, KUBEJOURNAL_KUBECONFIG, KUBEJOURNAL_CONTEXT, KUBEJOURNAL_NAMESPACE, KUBEJOURNAL_OUTPUT,
KUBEJOURNAL_CHECKPOINT, KUBEJOURNAL_LISTEN, KUBEJOURNAL_LOG_LEVEL and KUBEJOURNAL_FORMAT; an empty one counts as unset.

Exit status: 0 after SIGTERM or SIGINT with everything flushed and committed, 2 for a usage or config fault, 1 for
anything else.`,
		Example: `  # what happens to pods and deployments of the namespace web, in this terminal
  kubejournal run pods deploy -n web

  # the same into a file, resuming after a restart
  kubejournal run pods deploy -n web --output journal.jsonl --checkpoint journal.db

  # what a config file names
  kubejournal run --config kubejournal.yaml`,
		RunE: f.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "config `FILE`")
	for _, o := range config.Options {
		flags.String(o.Flag, "", flagUsage[o.Flag])
	}
	flags.StringVar(&f.format, "format", "",
		"of lines on stdout: `FORMAT` auto (text on a terminal), json or text (default auto)")
	flags.BoolVar(&f.changes, "changes", true,
		"list the changed fields on MODIFIED lines; defaults.changes of the config")
	flags.StringVarP(&f.namespace, "namespace", "n", "",
		"watch this `NAMESPACE` alone, where an entry names none itself")
	flags.StringVar(&f.profile, "pprof", "", "serve Go profiles on this loopback `ADDR`ess, e.g. 127.0.0.1:6060")
	return cmd
}

func (f *runFlags) run(cmd *cobra.Command, args []string) error {
	if f.profile != "" {
		if err := status.CheckProfile(f.profile); err != nil {
			return usagef("--pprof: %w", err)
		}
	}
	path, err := config.Find(f.config, args, os.LookupEnv)
	if err != nil {
		return err
	}
	over := config.Overrides{Flags: givenFlags(cmd), Namespace: f.namespace, Resources: args}
	if cmd.Flags().Changed("changes") {
		over.Changes = &f.changes
	}
	cfg, err := config.Load(path, over, os.LookupEnv)
	if err != nil {
		return err
	}
	style, err := displayOf(cmd, f.format, cfg.Output.Path)
	if err != nil {
		return usageError{err, nil}
	}
	if path == "" && follow.Terminal(cmd.ErrOrStderr(), os.Getenv).Width != nil {
		cfg.Log.Format = "console" // nobody could choose it, and people read it
	}
	log, level, err := logging.New(cfg.Log.Level, cfg.Log.Format, zapcore.AddSync(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer log.Sync() //nolint:errcheck // stderr holds nothing back, and a terminal refuses to be synced
	logging.RouteKubernetes(log)
	if f.profile != "" {
		server, err := status.Listen(f.profile, status.ProfileHandler())
		if err != nil {
			return fmt.Errorf("--pprof: %w", err)
		}
		server.Serve(log, "serving profiles")
		defer server.Close() //nolint:errcheck // a profile under way does not matter any more
	}
	signal.Ignore(syscall.SIGPIPE) // a reader of stdout that goes away is an error to report, not a signal to die of
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // from here on, so that one during the start is neither lost nor the end
	defer signal.Stop(hangup)
	build := readBuild(debug.ReadBuildInfo())
	var shown func(io.Writer) io.Writer
	var printer *follow.Printer
	if style != nil {
		shown = func(w io.Writer) io.Writer {
			printer = follow.NewPrinter(w, *style)
			return printer
		}
	}
	err = daemon.New(cfg, daemon.Options{
		Version: build.version, Commit: build.commit, Log: log, Level: level,
		Stdout: terminal.Raw(cmd.OutOrStdout()), Display: shown,
		ConfigPath: path, Hangup: hangup, Beside: followAudit(log),
		Parse: func(content []byte) (*config.Config, error) { return config.Parse(content, path, over, os.LookupEnv) },
	}).Run(cmd.Context())
	if printer == nil || err != nil { // with an error, a blocked write may still use the printer
		return err
	}
	return printer.End()
}

// displayOf returns how lines on stdout are shown to people; nil where they go out as they are.
func displayOf(cmd *cobra.Command, format, path string) (*follow.Style, error) {
	from := "--format"
	if format == "" {
		format, from = os.Getenv(formatEnv), formatEnv
	}
	style := follow.Terminal(cmd.OutOrStdout(), os.Getenv)
	style.JSON = format == "json"
	switch {
	case !slices.Contains([]string{"", "auto", "json", "text"}, format):
		return nil, fmt.Errorf("%s: %q is not known; write auto, json or text", from, format)
	case format == "text" && path != config.Stdout:
		return nil, fmt.Errorf("%s: text is for stdout; a journal file always holds JSON, show it with: "+
			"kubejournal tail %s", from, terminal.ShellWord(path))
	case format != "text" && style.Width == nil:
		return nil, nil
	}
	return &style, nil
}
