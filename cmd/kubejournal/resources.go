package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"kubejournal/internal/access"
	"kubejournal/internal/discovery"
	"kubejournal/internal/rbac"
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
a config: paste it and keep what is to be journalled. A comment behind each entry has its kind, scope, versions
(preferred first) and short names. Objects that the server has in two groups are listed once.

With -n, the question is what may be watched in that namespace, and entries name it. What this identity may not list and
watch is left out; with --all it is shown as a comment with the server's reason.

The API server is found by --kubeconfig and --context, or KUBEJOURNAL_KUBECONFIG and KUBEJOURNAL_CONTEXT, or as kubectl
does; no config is read. A group that does not answer is named on stderr and is no failure.

Exit status: 0, 2 for a usage fault, 1 if the server cannot be asked.`,
		Example: `  # a config to begin with
  kubejournal resources > kubejournal.yaml

  # what a service account with a Role in one namespace can journal there
  kubejournal resources -n web --context web-reader

  # names alone, for a program
  kubejournal resources -o name`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf(cmd, "--output", output, "yaml", "name"); err != nil {
				return err
			}
			s, err := access.Ask(cmd.Context(), serverOptions(cmd, os.LookupEnv), cmd.ErrOrStderr())
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
			if output == "name" {
				return writeNames(cmd.OutOrStdout(), offers, all)
			}
			return writeEntries(cmd.OutOrStdout(), offers, namespace, all)
		},
	}
	addServerFlags(cmd)
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&namespace, "namespace", "n", "", "what may be watched in this `NAMESPACE`")
	flags.StringVarP(&output, "output", "o", "yaml", "`FORMAT`: yaml or name")
	flags.BoolVar(&all, "all", false, "also what this identity may not list and watch")
	return cmd
}

// entryOf is the entry of a config for a resource.
func entryOf(o discovery.Offer, namespace string) string {
	name := o.GVR.GroupResource().String()
	if namespace != "" && o.Namespaced {
		return fmt.Sprintf("{resource: %s, namespaces: [%s]}", name, rbac.QuoteName(namespace))
	}
	return name
}

// aboutOffer is the comment behind it.
func aboutOffer(o discovery.Offer) string {
	scope := "cluster-scoped"
	if o.Namespaced {
		scope = "namespaced"
	}
	parts := []string{o.Kind, scope, strings.Join(o.Versions, " ")}
	if len(o.ShortNames) > 0 {
		parts = append(parts, "short "+strings.Join(o.ShortNames, " "))
	}
	about := strings.Join(parts, ", ")
	for _, same := range o.Same {
		about += "; the same objects as " + same.String()
	}
	if o.Refusal != "" {
		about += "; " + o.Refusal
	}
	return about
}

func writeNames(w io.Writer, offers []discovery.Offer, all bool) error {
	var b bytes.Buffer
	for _, o := range offers {
		if all || o.Refusal == "" {
			fmt.Fprintln(&b, o.GVR.GroupResource())
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func writeEntries(w io.Writer, offers []discovery.Offer, namespace string, all bool) error {
	width, denied := 0, 0
	for _, o := range offers {
		if o.Refusal != "" {
			denied++
		}
		if all || o.Refusal == "" {
			width = max(width, len(entryOf(o, namespace)))
		}
	}
	if all && denied > 0 {
		width += len("# ")
	}
	var b bytes.Buffer
	if denied == len(offers) {
		fmt.Fprintln(&b, "resources: [] # this identity may list and watch none of them")
	} else {
		fmt.Fprintln(&b, "resources:")
	}
	for _, o := range offers {
		switch {
		case o.Refusal == "":
			fmt.Fprintf(&b, "  - %-*s  # %s\n", width, entryOf(o, namespace), aboutOffer(o))
		case all:
			fmt.Fprintf(&b, "  # - %-*s  # %s\n", width-len("# "), entryOf(o, namespace), aboutOffer(o))
		}
	}
	if denied > 0 && !all {
		fmt.Fprintf(&b, "  # and %d that this identity may not list and watch; --all shows them\n", denied)
	}
	_, err := w.Write(b.Bytes())
	return err
}
