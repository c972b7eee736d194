package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"kubejournal/internal/host/terminal"
	"kubejournal/internal/record/access"
	"kubejournal/internal/record/discovery"
)

func newRBACCommand() *cobra.Command {
	var (
		configFlag string
		to         access.Subject
		o          access.RBACOptions
	)
	cmd := &cobra.Command{
		Use:   "rbac --config FILE",
		Short: "Print the least rights that a config needs, as YAML",
		Long: `Print the minimal RBAC rules that the daemon needs for a config, with the bindings to its service account: a Role in
each namespace that entries name, and a ClusterRole for the rest. They allow
  list and watch   of what is journalled; where a fieldSelector selects one metadata.name, of this object only
  get              of the namespace kube-system, whose uid identifies the cluster
  list and watch   of CustomResourceDefinitions, if the config has a wildcard or a custom resource, to notice at once
                   one that is defined later
  get and update   of the Lease of leaderElection (one per shard), in its leaseNamespace or the service account's
  create           of Leases in that namespace: RBAC cannot restrict create to a name
Discovery needs no rule: every authenticated identity may use it.

The server resolves names, as for run. With --offline no server is asked: Kubernetes' own resources are known by all
their names, others must be written in full, e.g. widgets.example.com.

A wildcard also covers resources that come later, so its rule has a wildcard. RBAC cannot say "all but": such a rule also
allows what 'exclude' leaves out, Secrets included. --enumerate names what the server has now instead.

Namespaces and the service account are not created: apply the output to a cluster that has them.

Exit status: 0, 2 for a usage or config fault, 1 if the server cannot be asked.`,
		Example: `  kubejournal rbac --config kubejournal.yaml | kubectl apply -f -

  # for another service account, without a cluster
  kubejournal rbac --config kubejournal.yaml --offline --namespace audit --service-account journal`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := to.Check(); err != nil {
				return usageError{err, nil}
			}
			if o.Offline && o.Enumerate {
				return usagef("--enumerate needs the server; leave --offline out")
			}
			path, cfg, err := loadConfig(configFlag, givenFlags(cmd))
			if err != nil {
				return err
			}
			resolver := discovery.Offline()
			if !o.Offline {
				s, err := access.Ask(cmd.Context(), cfg.Kubernetes, cmd.ErrOrStderr())
				if err != nil {
					return fmt.Errorf("%w; or name no server with --offline", err)
				}
				resolver = s.Resolver
			}
			yaml, warnings, err := access.RBAC(cfg, path, resolver, o, to)
			if err != nil {
				return err
			}
			warn(cmd, warnings)
			_, err = terminal.Raw(cmd.OutOrStdout()).Write(yaml)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&configFlag, "config", "", "config `FILE` (default: as for run)")
	addServerFlags(cmd)
	flags.StringVar(&to.Name, "name", "kubejournal", "`NAME` of the roles and bindings")
	flags.StringVar(&to.Namespace, "namespace", "kubejournal", "`NAMESPACE` of the service account")
	flags.StringVar(&to.Account, "service-account", "", "`NAME` of the service account (default: that of the roles)")
	flags.BoolVar(&o.Offline, "offline", false, "ask no server")
	flags.BoolVar(&o.Enumerate, "enumerate", false, "for a wildcard, name what the server has now")
	return cmd
}
