package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/host/terminal"
)

// longestCompletion is how long a shell waits for names: those of a journal with an index are found in less.
const longestCompletion = 3 * time.Second

// findJournal finds the journals that a command line names, and the arguments that name objects.
type findJournal = func(cmd *cobra.Command, args []string) (paths, objects []string, err error)

// completeNames has a shell complete the arguments of a command that name objects, and -n, with names of a journal.
// Where there is none, or none that can be read, it has no names and says nothing: the command itself does.
func completeNames(cmd *cobra.Command, find findJournal, namespaces *[]string) {
	type namesOf func(ctx context.Context, j *archive.Journal, args []string, word string) []string
	from := func(names namesOf) cobra.CompletionFunc {
		return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			const none = cobra.ShellCompDirectiveNoFileComp
			parsedOnce(cmd)
			paths, args, err := find(cmd, args)
			if err != nil {
				return nil, none
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), longestCompletion)
			defer cancel()
			fitting := make(map[string]bool)
			for _, path := range paths {
				j, err := archive.Open(path, func(string) {})
				if err != nil || j.Empty() {
					continue
				}
				for _, name := range names(ctx, j, args, word) {
					if strings.HasPrefix(name, word) && terminal.IsShellWord(name) {
						fitting[name] = true
					}
				}
				j.Close()
			}
			return slices.Sorted(maps.Keys(fitting)), none
		}
	}
	cmd.ValidArgsFunction = from(func(ctx context.Context, j *archive.Journal, args []string, word string) []string {
		return j.CompleteObjects(ctx, *namespaces, args, word)
	})
	err := cmd.RegisterFlagCompletionFunc("namespace", from(func(
		ctx context.Context, j *archive.Journal, _ []string, word string,
	) []string {
		return j.CompleteNamespaces(ctx, word)
	}))
	if err != nil {
		panic(err) // there is no such flag
	}
	for _, flag := range []string{"at", "since", "until", "by", "field", "selector", "field-selector", "lines"} {
		if cmd.Flags().Lookup(flag) != nil {
			complete(cmd, flag, nil) // no files
		}
	}
}

// parsedOnce undoes that cobra parses the flags twice for a completion: a journal that is named twice is refused.
func parsedOnce(cmd *cobra.Command) {
	if journals, ok := cmd.Flags().Lookup("journal").Value.(pflag.SliceValue); ok {
		all := journals.GetSlice()
		slices.Sort(all)
		_ = journals.Replace(slices.Compact(all)) // which takes any text
	}
}
