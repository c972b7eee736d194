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
			info, _ := debug.ReadBuildInfo()
			b := readBuild(info)
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "kubejournal %s\ncommit      %s\ngo          %s\nclient-go   %s\n",
				b.version, b.commit, b.goVersion, b.clientGo)
			return err
		},
	}
}

// build is what a binary was made of; "unknown" where it was not recorded.
type build struct{ version, commit, goVersion, clientGo string }

// readBuild takes the link-time values first. info is nil in a binary without build information.
func readBuild(info *debug.BuildInfo) build {
	b := build{version: version, commit: commit, goVersion: runtime.Version()}
	if info != nil {
		b.version = cmp.Or(b.version, strings.Trim(info.Main.Version, "()")) // (devel) in a build from a working tree
		b.commit = cmp.Or(b.commit, recordedCommit(info.Settings))
		for _, m := range info.Deps {
			if m.Path == "k8s.io/client-go" {
				b.clientGo = m.Version
			}
		}
	}
	const unknown = "unknown"
	b.version, b.commit, b.clientGo = cmp.Or(b.version, unknown), cmp.Or(b.commit, unknown), cmp.Or(b.clientGo, unknown)
	return b
}

func recordedCommit(settings []debug.BuildSetting) string {
	revision, modified := "", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " (modified)"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + modified
}
