package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/verify"
	"kubejournal/internal/host/terminal"
)

func newIndexCommand() *cobra.Command {
	var (
		f      askFlags
		verify bool
	)
	cmd := &cobra.Command{
		Use:   "index",
		Short: "Write the journal's indexes again, or verify the journal",
		Long: `Write the indexes of rotated files that are missing or damaged. The daemon writes one for each file when it rotates it, so
this is for indexes that were lost. A journal without them gives the same answers, and takes longer.

--verify writes nothing. It reads every file, and proves that no line is missing, that every file can be read, and that
every index agrees with its file, and compares each file with the SEALED line about it, where there is one.
` + journalHelp + `

Exit status: 0; 2 for a usage or config fault; 1 if something could not be written or is not as it should be.`,
		Example: `  kubejournal index --journal /var/lib/kubejournal/journal.jsonl

  kubejournal index --verify`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			paths, err := f.paths()
			if err != nil {
				return err
			}
			var q answering
			return q.run(cmd.Context(), func() error {
				for _, path := range paths {
					err = errors.Join(err, indexJournal(cmd, path, verify))
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "prove that the journal is whole, and write nothing")
	f.addJournal(cmd)
	return cmd
}

func indexJournal(cmd *cobra.Command, path string, check bool) error {
	j, err := archive.Open(path, func(string) {})
	if err != nil {
		return err
	}
	defer j.Close()
	if check {
		return verifyJournal(cmd, j)
	}
	tried := 0
	verify.Reindex(cmd.Context(), j, func(path string, fault error) {
		if tried++; fault != nil {
			err = statusError(exitFault)
			terminal.Note(cmd.ErrOrStderr(), fault.Error())
			return
		}
		fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", terminal.Line(path))
	})
	if tried == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "kubejournal: every rotated file has its index")
	}
	return errors.Join(err, cmd.Context().Err())
}

func verifyJournal(cmd *cobra.Command, j *archive.Journal) error {
	faults := 0
	is, err := verify.Files(cmd.Context(), j, func(fault string) {
		faults++
		fmt.Fprintln(cmd.OutOrStdout(), terminal.Line(fault))
	})
	switch {
	case err != nil:
		return err
	case faults > 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "kubejournal: %s\n", terminal.Count(faults, "fault", "faults"))
		return statusError(exitFault)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d lines, none missing; every file can be read, and every index agrees%s\n",
		is.Lines, is)
	return nil
}
