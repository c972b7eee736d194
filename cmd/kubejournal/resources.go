package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"kubejournal/internal/config"
	"kubejournal/internal/host/terminal"
	"kubejournal/internal/record/access"
)

func newResourcesCommand() *cobra.Command {
	var (
		namespace, output string
		all               bool
	)
	cmd := &cobra.Command{
		Use:   "resources",
		Short: "List what the server lets one watch, as entries for a config",
		Long: `List every resource of the API server that can be watched and that this identity may list and watch, as the resources of
a config: paste it and keep what is to be journalled. A comment after each entry has its kind, scope, versions
(preferred first) and short names. Objects that the server has in two groups are listed once.

With -n, the question is what may be watched in that namespace, and entries name it. What this identity may not list and
watch is left out; with --all it is shown as a comment with the server's reason. Each resource is listed with limit=1: one
whose lists have no resourceVersion cannot be followed and is left out too; of one whose list fails, the comment says why.

The API server is found by --kubeconfig and --context, or KUBEJOURNAL_KUBECONFIG and KUBEJOURNAL_CONTEXT, or as kubectl
does; no config is read. A group that does not answer is named on stderr and is no failure.

Exit status: 0, also where lists fail; 2 for a usage fault, 1 if the server cannot be asked.`,
		Example: `  # a config to begin with
  kubejournal resources > kubejournal.yaml

  # what a service account with a Role in one namespace can journal there
  kubejournal resources -n web --context web-reader

  # names alone, for a program
  kubejournal resources -o name`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := access.Ask(cmd.Context(), config.Server(givenFlags(cmd), os.LookupEnv), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			offers, err := s.Watchable(cmd.Context(), namespace)
			if err != nil {
				return err
			}
			if len(offers) == 0 {
				return errors.New("the server has nothing that can be watched")
			}
			if output == "yaml" {
				return access.WriteEntries(terminal.Raw(cmd.OutOrStdout()), offers, namespace, all)
			}
			var names strings.Builder
			for _, o := range offers {
				if all || o.Usable() {
					fmt.Fprintln(&names, o.GVR.GroupResource())
				}
			}
			_, err = io.WriteString(cmd.OutOrStdout(), names.String())
			return err
		},
	}
	addServerFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&namespace, "namespace", "n", "", "what may be watched in this `NAMESPACE`")
	addChoice(cmd, &output, "output", "o", "`FORMAT`: yaml or name", "yaml", "name")
	flags.BoolVar(&all, "all", false, "also what this identity may not list and watch")
	return cmd
}
