package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"kubejournal/internal/config"
	"kubejournal/internal/logging"
	"kubejournal/internal/ops"
	"kubejournal/internal/tail"
)

// formatEnv is the variable behind --format.
const formatEnv = "KUBEJOURNAL_FORMAT"

// flagUsage is the help of the flags that stand for keys of the config.
var flagUsage = map[string]string{
	"kubeconfig": "kubeconfig `FILE` (default: as kubectl: $KUBECONFIG, ~/.kube/config, in-cluster)",
	"context":    "`NAME` of the kubeconfig context to use",
	"output":     "journal file `PATH`, or - for stdout",
	"checkpoint": "checkpoint file `PATH`, where positions are kept over a restart",
	"listen":     "`ADDR`ess for metrics and health, e.g. :8080; \"\" for none",
	"log-level":  "`LEVEL` of the log on stderr: debug, info, warn or error",
}

func newRunCommand() *cobra.Command {
	var configFlag, namespace, format, profile string
	cmd := &cobra.Command{
		Use:   "run [RESOURCE...]",
		Short: "Run the daemon: watch resources and write the journal",
		Long: `Watch resources and write one JSON line per change, until SIGTERM or SIGINT. A second signal exits at once.

RESOURCE is what kubectl get takes: pods, deploy, deployments.apps, deployments.v1.apps. All namespaces are watched
unless -n names one.

With RESOURCEs and no config, the journal goes to stdout, no checkpoint is kept unless --checkpoint names one, and no
port is opened unless --listen names one. On a terminal the lines are shown as 'kubejournal tail' shows them; into a
pipe, or with --format json, they are JSON. With a config, RESOURCEs take the place of its list of resources and
everything else stays as the config has it.

Without either, ./kubejournal.yaml and then /etc/kubejournal/kubejournal.yaml is read. A flag wins over its environment
variable, that over the config file, and that over the default. The variables are KUBEJOURNAL_CONFIG,
KUBEJOURNAL_KUBECONFIG, KUBEJOURNAL_CONTEXT, KUBEJOURNAL_NAMESPACE, KUBEJOURNAL_OUTPUT, KUBEJOURNAL_CHECKPOINT,
KUBEJOURNAL_LISTEN, KUBEJOURNAL_LOG_LEVEL and KUBEJOURNAL_FORMAT; an empty one counts as unset.

Exit status: 0 after SIGTERM or SIGINT with everything flushed and committed, 2 for a usage or config fault, 1 for
anything else.`,
		Example: `  # what happens to pods and deployments of the namespace web, in this terminal
  kubejournal run pods deploy -n web

  # the same into a file, going on where it was after a restart
  kubejournal run pods deploy -n web --output journal.jsonl --checkpoint journal.db

  # what a config file names
  kubejournal run --config kubejournal.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if profile != "" {
				if err := ops.CheckProfile(profile); err != nil {
					return &usageError{cmd, fmt.Errorf("--pprof: %w", err)}
				}
			}
			path, err := configPath(configFlag, args, os.LookupEnv)
			if err != nil {
				return err
			}
			over := config.Overrides{Flags: givenFlags(cmd), Namespace: namespace, Resources: args}
			cfg, err := config.Load(path, over, os.LookupEnv)
			if err != nil {
				return err
			}
			show, err := shownAs(cmd, format, cfg.Output.Path)
			if err != nil {
				return &usageError{cmd, err}
			}
			if path == "" && terminalWidth(cmd.ErrOrStderr()) != nil {
				cfg.Log.Format = "console" // nobody could say otherwise, and people read it
			}
			log, level, err := logging.New(cfg.Log.Level, cfg.Log.Format, zapcore.AddSync(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			defer log.Sync() //nolint:errcheck // stderr holds nothing back, and a terminal refuses to be synced
			return runDaemon(cmd.Context(), cfg, log, cmd.OutOrStdout(), manner{
				profile: profile, show: show, path: path, level: level,
				parse: func(data []byte) (*config.Config, error) { return config.Parse(data, path, over, os.LookupEnv) },
			})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&configFlag, "config", "", "config `FILE`")
	for _, o := range config.Options {
		flags.String(o.Flag, "", flagUsage[o.Flag])
	}
	flags.StringVar(&format, "format", "", "of lines on stdout: `FORMAT` auto (text on a terminal), json or text (default auto)")
	flags.StringVarP(&namespace, "namespace", "n", "", "watch this `NAMESPACE` alone, where an entry names none itself")
	flags.StringVar(&profile, "pprof", "", "serve Go profiles on this loopback `ADDR`ess, e.g. 127.0.0.1:6060")
	return cmd
}

// shownAs returns what is put in front of stdout: nil where lines go out as they are.
func shownAs(cmd *cobra.Command, format, path string) (func(io.Writer) io.Writer, error) {
	from := "--format"
	if format == "" {
		if format = os.Getenv(formatEnv); format != "" {
			from = formatEnv
		}
	}
	width := terminalWidth(cmd.OutOrStdout())
	switch format {
	case "json":
		if width == nil {
			return nil, nil
		}
	case "", "auto":
		if width == nil {
			return nil, nil
		}
	case "text":
		if path != config.Stdout {
			return nil, fmt.Errorf("%s: text is for stdout; a journal file always holds JSON, show it with 'kubejournal tail %s'", from, path)
		}
	default:
		return nil, fmt.Errorf("%s: %q is not known; write auto, json or text", from, format)
	}
	style := tail.Style{JSON: format == "json", Width: width, Colour: width != nil && wantsColour(os.Getenv)}
	return func(w io.Writer) io.Writer { return tail.NewPrinter(w, style) }, nil
}

// givenFlags returns the flags that the user gave, an empty value included: --listen "" turns listening off.
func givenFlags(cmd *cobra.Command) map[string]string {
	given := map[string]string{}
	for _, o := range config.Options {
		if f := cmd.Flags().Lookup(o.Flag); f != nil && f.Changed {
			given[o.Flag] = f.Value.String()
		}
	}
	return given
}
