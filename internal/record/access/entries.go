package access

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"kubejournal/internal/format/yamlflow"
	"kubejournal/internal/host/terminal"
	"kubejournal/internal/record/discovery"
)

// WriteEntries writes what may be watched as the resources of a config, each with a comment about it. What is refused
// is counted, or with all written as a comment; so is what cannot be followed. namespace is the one that the entries
// name; "" is none.
func WriteEntries(w io.Writer, offers []discovery.Offer, namespace string, all bool) error {
	refused, unversioned := 0, 0
	for _, o := range offers {
		switch {
		case o.Refusal != "":
			refused++
		case o.Unversioned:
			unversioned++
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "defaults:\n  changes: true # MODIFIED lines say which fields changed")
	if refused+unversioned == len(offers) {
		fmt.Fprintln(t, "resources: [] # this identity may list and watch none of them")
	} else {
		fmt.Fprintln(t, "resources:")
	}
	for _, o := range offers {
		switch {
		case o.Usable():
			fmt.Fprintf(t, "  - %s\t# %s\n", entryOf(o, namespace), aboutOffer(o))
		case all:
			fmt.Fprintf(t, "  # - %s\t# %s\n", entryOf(o, namespace), aboutOffer(o))
		}
	}
	if refused > 0 && !all {
		fmt.Fprintf(t, "  # and %d that this identity may not list and watch; --all shows them\n", refused)
	}
	if unversioned > 0 && !all {
		fmt.Fprintf(t, "  # and %d whose lists have no resourceVersion, so that it cannot be followed; --all shows them\n",
			unversioned)
	}
	return t.Flush()
}

func entryOf(o discovery.Offer, namespace string) string {
	name := o.GVR.GroupResource().String()
	if namespace == "" || !o.Namespaced {
		return yamlflow.Inline(name)
	}
	return yamlflow.Inline(
		[]yamlflow.Pair{{Key: "resource", Value: name}, {Key: "namespaces", Value: []string{namespace}}},
	)
}

func aboutOffer(o discovery.Offer) string {
	scope := "cluster-scoped"
	if o.Namespaced {
		scope = "namespaced"
	}
	about := strings.Join([]string{o.Kind, scope, strings.Join(o.Versions, " ")}, ", ")
	if len(o.ShortNames) > 0 {
		about += ", short " + strings.Join(o.ShortNames, " ")
	}
	for _, same := range o.Same {
		about += "; the same objects as " + same.String()
	}
	for _, why := range []string{o.Refusal, o.Finding} {
		if why != "" {
			about += "; " + why
		}
	}
	return terminal.Comment(about)
}
