package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/cluster"
	"kubejournal/internal/host/terminal"
)

// asked returns the clusters that are asked, with their journals. One journal is not read for that.
func (f *askFlags) asked(cmd *cobra.Command) ([]cluster.Journals, error) {
	paths, err := f.paths()
	if err != nil {
		return nil, err
	}
	if len(paths) == 1 && len(f.clusters) == 0 {
		return []cluster.Journals{{Paths: paths}}, nil
	}
	notice := func(text string) { terminal.Note(cmd.ErrOrStderr(), text) }
	all, err := cluster.Group(cmd.Context(), paths, notice)
	if err != nil {
		return nil, err
	}
	return cluster.Choose(all, f.clusters)
}

// checkClusters returns a usageError for what is asked of one cluster, or of one journal, where there are several.
func (f *askFlags) checkClusters(all []cluster.Journals) error {
	if len(all) == 1 {
		return checkOne(len(all[0].Paths), f.Begin, f.To)
	}
	what := f.applied
	for _, m := range []argument.Moment{f.Begin, f.To} {
		if m.Seq+m.Version > 0 {
			what = m.String()
		}
	}
	if what == "" {
		return nil
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return usagef("%s is for one cluster, and these are asked: %s; name one with --cluster",
		what, strings.Join(names, ", "))
}

// clusterNames completes the last of several clusters separated by commas.
func clusterNames(ctx context.Context, paths, _ []string, word string) (names []string) {
	all, _ := cluster.Group(ctx, paths, func(string) {}) // or none
	for _, c := range all {
		names = append(names, word[:strings.LastIndexByte(word, ',')+1]+c.Name)
	}
	return names
}
