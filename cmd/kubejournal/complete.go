package main

import (
	"context"
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

// completer returns what completes a word, with the names that fit of the journals that find finds. Where there is none,
// or none that can be read, it has no names and says nothing: the command itself does.
func completer(
	find findJournal, names func(ctx context.Context, paths, args []string, word string) []string,
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		parsedOnce(cmd)
		paths, args, err := find(cmd, args)
		if err != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), longestCompletion)
		defer cancel()
		fitting := slices.DeleteFunc(names(ctx, paths, args, word), func(name string) bool {
			return !strings.HasPrefix(name, word) || !terminal.IsShellWord(name)
		})
		slices.Sort(fitting)
		return slices.Compact(fitting), none
	}
}

// completeNames has a shell complete the arguments of a command that name objects, and -n, with names of a journal.
func completeNames(cmd *cobra.Command, find findJournal, namespaces *[]string) {
	type namesOf func(ctx context.Context, j *archive.Journal, args []string, word string) []string
	from := func(names namesOf) cobra.CompletionFunc {
		return completer(find, func(ctx context.Context, paths, args []string, word string) (all []string) {
			for _, path := range paths {
				j, err := archive.Open(path, func(string) {})
				if err != nil || j.Empty() {
					continue
				}
				all = append(all, names(ctx, j, args, word)...)
				j.Close()
			}
			return all
		})
	}
	cmd.ValidArgsFunction = from(func(ctx context.Context, j *archive.Journal, args []string, word string) []string {
		return j.CompleteObjects(ctx, *namespaces, args, word)
	})
	namespace := from(func(ctx context.Context, j *archive.Journal, _ []string, word string) []string {
		return j.CompleteNamespaces(ctx, word)
	})
	completeFlag(cmd, "namespace", namespace)
	for _, flag := range []string{"at", "since", "until", "by", "field", "selector", "field-selector", "lines"} {
		if cmd.Flags().Lookup(flag) != nil {
			completeFlag(cmd, flag, cobra.NoFileCompletions)
		}
	}
}

// completeFlag has a shell complete the value of a flag.
func completeFlag(cmd *cobra.Command, flag string, with cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic(err) // there is no such flag
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
