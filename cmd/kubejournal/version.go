package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version and commit are set at link time: -X main.version=v1.2.3 -X main.commit=... Without, what the Go tool
// recorded in the binary is shown.
var version, commit string

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version, the commit, and the Go and client-go it was built with",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := readBuild(debug.ReadBuildInfo())
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "kubejournal %s\ncommit      %s\ngo          %s\nclient-go   %s\n",
				b.version, b.commit, runtime.Version(), b.clientGo)
			return err
		},
	}
}

// build is what a binary was made of; "unknown" where it was not recorded.
type build struct{ version, commit, clientGo string }

// readBuild takes the link-time values first. A binary may have no build information.
func readBuild(info *debug.BuildInfo, ok bool) build {
	if !ok {
		info = new(debug.BuildInfo)
	}
	vcs := map[string]string{}
	for _, s := range info.Settings {
		vcs[s.Key] = s.Value
	}
	if vcs["vcs.modified"] == "true" {
		vcs["vcs.revision"] += " (modified)"
	}
	b := build{
		// (devel) in a build from a working tree
		version:  cmp.Or(version, strings.Trim(info.Main.Version, "()"), "unknown"),
		commit:   cmp.Or(commit, vcs["vcs.revision"], "unknown"),
		clientGo: "unknown",
	}
	for _, m := range info.Deps {
		if m.Path == "k8s.io/client-go" {
			b.clientGo = m.Version
		}
	}
	return b
}
