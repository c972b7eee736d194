package main

import (
	"github.com/spf13/cobra"

	"kubejournal/internal/format/schema"
)

func newSchemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the config or of a journal line",
		Long:  `Print a JSON Schema (draft 2020-12), for editors and for programs that check what they read.`,
		Args:  cobra.ArbitraryArgs,
		RunE:  group,
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "config",
			Short: "Print the JSON Schema of the config",
			Long: `Print the JSON Schema of the config file: every key with its meaning, default and form. An editor with
yaml-language-server (VS Code's YAML extension, Neovim, Helix) then completes and checks the file as it is written.

The schema knows the form of each value. What depends on others, such as two entries for one stream, is found by
'kubejournal validate'.`,
			Example: `  kubejournal schema config > kubejournal.schema.json

  # then, as the first line of kubejournal.yaml
  # yaml-language-server: $schema=kubejournal.schema.json`,
			Args: noArgs,
			RunE: printing(schema.Config()),
		},
		&cobra.Command{
			Use:   "line",
			Short: "Print the JSON Schema of a journal line",
			Long: `Print the JSON Schema of one line of a journal, of every type. The object in a line is the server's and may hold
anything.`,
			Example: `  kubejournal schema line > line.schema.json`,
			Args:    noArgs,
			RunE:    printing(schema.Line()),
		},
	)
	return cmd
}

// printing returns a command that writes text to stdout.
func printing(text []byte) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
}
