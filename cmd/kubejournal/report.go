package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/command"
	"kubejournal/internal/ask/report"
	"kubejournal/internal/host/terminal"
)

const reportHelp = `Write one HTML page about an incident: what happened to the selected objects in a time, for people who do not have the journal.
It opens from the disk in any browser of 2023 or later, needs no network, and asks for none.

The page has a lane for each object, below its owner and by its application's label, with a bar for how the object fared and a
mark for each version; and the versions in rows, as 'kubejournal history --all' has them. Each shows what changed, the object as
YAML, who wrote each line, and why it happened, as 'kubejournal why' says. On top it ranks what changed just before the first
symptom, and says by which rule. A symptom is a version with which an object's state becomes bad, the restart of a container,
or an Event of type Warning. Times that were not watched are hatched.

A page has at most 20000 versions, the YAML of objects up to 256 KiB, and the causes of 200 versions. What is left out is said on
the page and on stderr. Redacted values are not on it, as they are not in the journal.
`

func newReportCommand() *cobra.Command {
	var (
		f    askFlags
		r    command.Report
		file string
	)
	cmd := &cobra.Command{
		Use:   "report [RESOURCE[/NAME]...] -o FILE",
		Short: "Write one HTML page about an incident",
		Long: reportHelp + timeHelp + versionHelp + journalHelp + "\n" + statusHelp + `
The page is written with status 3 too, and says what is not covered.`,
		Example: `  # what happened in a namespace in ten minutes
  kubejournal report -n shop --since 14:00 --until 14:10 -o incident.html

  # a Deployment, its owners, what it owns, and Events about them
  kubejournal report deploy/web -n shop --related --since 14:00 --title 'Shop down' -o incident.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usagef("name the page's file: -o incident.html, or -o - for stdout")
			}
			r.Take = func(page *report.Page) error { return writePage(page, file, cmd) }
			return f.ask(cmd, args, &r)
		},
	}
	flags := cmd.Flags()
	addTime(cmd, &r.Since, "since", "versions since that `TIME`, e.g. 90m (ago), today, 14:02, 'yesterday 14:02'")
	addTime(cmd, &r.Until, "until", "versions up to that `TIME`")
	flags.BoolVar(&r.Related, "related", false,
		"show its owners, what it owns or, as a CustomResourceDefinition, defines, and Events about them")
	flags.StringVar(&r.Title, "title", "", "heading of the page (default: what is selected)")
	flags.StringVarP(&file, "output", "o", "", "write the page to that `FILE`, - for stdout")
	f.addNamespaces(cmd)
	f.addJournals(cmd)
	return cmd
}

// writePage writes a page to a file, once it is there as a whole.
func writePage(page *report.Page, file string, cmd *cobra.Command) error {
	var text bytes.Buffer
	if err := page.Write(&text); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	if file == "-" {
		_, err := terminal.Raw(cmd.OutOrStdout()).Write(text.Bytes())
		return err
	}
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	terminal.Note(cmd.ErrOrStderr(), fmt.Sprintf("wrote %s: %s of %s, %s", file, terminal.Count(page.Shown, "version", "versions"),
		terminal.Count(page.Count(), "object", "objects"), terminal.Bytes(uint64(text.Len()))))
	return nil
}
