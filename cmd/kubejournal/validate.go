package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	resources "kubejournal/internal/discovery"
)

func newValidateCommand() *cobra.Command {
	var (
		configFlag string
		server     bool
	)
	cmd := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Check a config without a cluster, or with --server against one",
		Long: `Read a config as run would read it, with the same environment, and report everything that is wrong with it,
one line per fault. No cluster is asked.

With --server, the API server is asked too: what each entry comes to, and whether this identity may list and watch it. To
ask as the daemon will, use its credentials, or impersonate it in the kubeconfig. A table of all streams goes to stdout,
and to stderr one line for each finding: what would be pending, with the remedy.

Exit status: 0 when the config can be run, 2 when it has a fault; with --server also 1 when some of it would be pending,
as it is not there or not allowed, or when the server cannot be asked.`,
		Example: `  kubejournal validate --config kubejournal.yaml

  # a config that takes the name of its node from the environment
  NODE_NAME=node-1 kubejournal validate --config kubejournal.yaml

  # what it comes to on a cluster
  kubejournal validate --config kubejournal.yaml --server --context prod`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if given := givenFlags(cmd); len(given) > 0 && !server {
				return &usageError{cmd, errors.New("--kubeconfig and --context are for --server; add it")}
			}
			path, err := configPath(configFlag, nil, os.LookupEnv)
			if err != nil {
				return err
			}
			cfg, err := config.Load(path, config.Overrides{Flags: givenFlags(cmd)}, os.LookupEnv)
			if err != nil {
				return err
			}
			if server {
				return validateOnServer(cmd, path, cfg)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %s\n", path, count(len(cfg.Resources), "resource entry", "resource entries"))
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&configFlag, "config", "", "config `FILE` (default: as for run)")
	flags.BoolVar(&server, "server", false, "ask the API server too: what is there, and what this identity may watch")
	addServerFlags(cmd)
	return cmd
}

// count says how many, in words.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// validateOnServer shows what the entries of a config come to. What would be pending is an error, what only the user can
// mend is config.Faults.
func validateOnServer(cmd *cobra.Command, path string, cfg *config.Config) error {
	s, err := askServer(cmd.Context(), cfg.Kubernetes, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	found, err := s.examine(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	if err := found.write(cmd.OutOrStdout()); err != nil {
		return err
	}
	for _, w := range found.warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), w.Error())
	}
	for _, p := range found.pending {
		fmt.Fprintln(cmd.ErrOrStderr(), p.Error())
	}
	switch n := len(found.pending); {
	case len(found.faults) > 0:
		return found.faults
	case n > 0:
		return fmt.Errorf("%s: not all of it can run on this server, %s above", path, count(n, "finding stands", "findings stand"))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%s: ok on %s, %s\n", path, s.host, count(found.streams, "stream", "streams"))
	return err
}

// examination is what a server says to a config.
type examination struct {
	rows     [][5]string // entry, resource, stream, version, state
	streams  int
	faults   config.Faults // only the user can mend
	pending  config.Faults // waits for the server
	warnings config.Faults
}

// examine resolves every entry and asks for the rights that its streams need.
func (s *server) examine(ctx context.Context, cfg *config.Config) (*examination, error) {
	found := new(examination)
	all := s.ResolveAll(cfg.Resources)
	var asked [][]resources.Right
	for _, resolved := range all {
		for _, st := range resolved.Streams {
			asked = append(asked, st.Rights())
		}
	}
	found.streams = len(asked)
	kubeSystem := resources.Right{Verb: "get", Name: "kube-system", Namespace: "kube-system"}
	kubeSystem.Resource.Resource = "namespaces"
	refusals, err := s.refusals(ctx, append(asked, []resources.Right{kubeSystem}))
	if err != nil {
		return nil, err
	}
	next := 0
	for i, resolved := range all {
		entry := cfg.Resources[i]
		for _, st := range resolved.Streams {
			state := "ok"
			if refusal := refusals[next]; refusal != "" {
				state = "pending: " + refusal
				field := "resource"
				if len(entry.Namespaces) > 0 {
					field = "namespaces"
				}
				found.pending = append(found.pending, cfg.Fault(entry.Entry, field,
					fmt.Sprintf("%s: this identity %s; grant it, see 'kubejournal rbac --help'", st.Name(), refusal)))
			} else if st.FieldSelector != "" {
				answer, err := s.selects(ctx, st)
				if err != nil {
					return nil, err
				}
				if answer != "" {
					state = "config fault"
					fault := cfg.Fault(entry.Entry, "fieldSelector", fmt.Sprintf("the server does not select %s by %q: %s; take a field that it knows, or 'filter'",
						st.GVR.GroupResource(), st.FieldSelector, answer))
					if !slices.Contains(found.faults, fault) { // an entry has a stream for each of its namespaces
						found.faults = append(found.faults, fault)
					}
				}
			}
			next++
			found.rows = append(found.rows, [5]string{entry.Entry, entryName(entry), st.Name(), st.GVR.Version, state})
		}
		found.add(cfg, entry, resolved.Err)
	}
	if refusal := refusals[next]; refusal != "" {
		found.warnings = append(found.warnings, config.Fault{File: "kubejournal: warning",
			Msg: "this identity " + refusal + " the namespace kube-system: run cannot tell whether a checkpoint belongs to the cluster; grant it, see 'kubejournal rbac --help'"})
	}
	for _, entry := range cfg.Resources {
		for i, name := range entry.Exclude {
			if _, known := s.Fits(name, schema.GroupResource{}); !known {
				found.warnings = append(found.warnings, cfg.Fault(entry.Entry, fmt.Sprintf("exclude[%d]", i),
					fmt.Sprintf("warning: the server has no resource %q; nothing of that name is there to be excluded now", name)))
			}
		}
	}
	for _, rule := range cfg.Redact {
		if _, known := s.Fits(rule.Resource, schema.GroupResource{}); !known {
			found.warnings = append(found.warnings, cfg.Fault(rule.Entry, "resource",
				fmt.Sprintf("warning: the server has no resource %q; nothing of that name is there to be redacted now", rule.Resource)))
		}
	}
	return found, nil
}

// selects asks the server to select by a stream's field selector: each resource has fields of its own for that, which
// discovery does not name. The answer is why it does not; "" where it does.
func (s *server) selects(ctx context.Context, st resources.Stream) (answer string, err error) {
	root := "/apis"
	if st.GVR.Group == "" {
		root = "/api"
	}
	err = s.client.Get().AbsPath(root, st.GVR.Group, st.GVR.Version).NamespaceIfScoped(st.Namespace, st.Namespace != "").Resource(st.GVR.Resource).
		SetHeader("Accept", "application/json").Param("limit", "1").Param("fieldSelector", st.FieldSelector).Do(ctx).Error()
	switch {
	case apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
		return oneLine(err.Error()), nil
	case err != nil:
		return "", fmt.Errorf("list %s: %w", st.Name(), err)
	}
	return "", nil
}

// add notes why an entry comes to no stream; nil: it comes to some.
func (e *examination) add(cfg *config.Config, entry config.Resource, err error) {
	if err == nil {
		return
	}
	state := "pending: " + err.Error()
	if resources.IsConfigFault(err) {
		state = "config fault"
		e.faults = append(e.faults, config.Fault{Msg: err.Error()})
	} else {
		e.pending = append(e.pending, cfg.Fault(entry.Entry, "resource", err.Error()+remedyFor(err)))
	}
	e.rows = append(e.rows, [5]string{entry.Entry, entryName(entry), "-", "-", state})
}

// remedyFor is what a user can do about an entry that comes to no stream, where the error itself does not say it.
func remedyFor(err error) string {
	switch {
	case errors.As(err, new(*resources.NotFoundError)):
		return "; it starts once that is there, see 'kubejournal resources' for what is"
	case errors.As(err, new(*resources.UnwatchableError)):
		return "; see 'kubejournal resources' for what can be"
	}
	return ""
}

func (e *examination) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ENTRY\tRESOURCE\tSTREAM\tVERSION\tSTATE")
	for _, r := range e.rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r[0], r[1], r[2], r[3], r[4])
	}
	return t.Flush()
}
