// Command skew runs the conformance suite and the main scenarios on each control plane of cluster.Variants, one after
// the other, and prints what each server called itself, how many tests passed there, and how long they took. It fails
// where a test fails, where one is skipped or is not there, and where the tests met another server than they should.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"kubejournal/test/cluster"
)

// packages are tested one after the other: each has two servers to feed.
var packages = []string{"kubejournal/test/conformance", "kubejournal/test/scenario"}

// tests are what each variant must pass. A scenario is here for what an API server has to do with it: lists, history,
// bookmarks, refusals. The others are about kubejournal's own files and command line.
var tests = []string{
	"TestRealControlPlane",

	"TestFirstList",
	"TestSnapshotThenChurn",
	"TestNamespacesAndSelector",
	"TestRestartWithHistory",
	"TestRestartWithoutHistory",
	"TestKillNineDuringChurn",
	"TestKillNineDuringList",
	"TestAPIServerKilledUnderLoad",
	"TestPositionAheadOfServer",
	"TestCustomResourceComesLater",
	"TestForbiddenResource",
	"TestSecretsAreRedacted",
	"TestTakeover",
	"TestShards",
	"TestChangeShards",
}

// testTimeout is a package's, for go test. The servers end with it.
const testTimeout = "12m"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		fmt.Fprintln(stderr, "usage: skew")
		return 2
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "control plane\tserver\ttests\ttime\tresult")
	status := 0
	for _, v := range cluster.Variants() {
		fmt.Fprintf(stdout, "== %s\n", v)
		began := time.Now()
		r, err := test(ctx, v, stdout, stderr)
		result := "ok"
		if err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", v, err)
			result, status = "FAILED", 1
		}
		took := time.Since(began).Round(time.Second)
		fmt.Fprintf(stdout, "%s, %d tests, %s: %s\n", strings.Join(r.servers(), " and "), r.passed, took, result)
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", v, strings.Join(r.servers(), " "), r.passed, took, result)
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Fprintln(stdout)
	if err := table.Flush(); err != nil {
		return 1
	}
	return status
}

// test runs the tests on one variant, built first where it must be. What failed is written to stdout as it ends.
func test(ctx context.Context, v cluster.Variant, stdout, stderr io.Writer) (report, error) {
	r := newReport()
	if _, err := v.Build(ctx); err != nil {
		return r, err
	}
	release, err := v.Release(ctx)
	if err != nil {
		return r, err
	}
	args := []string{"test", "-json", "-race", "-count=1", "-p=1", "-timeout", testTimeout, "-run",
		"^(" + strings.Join(tests, "|") + ")$"}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Env = append(os.Environ(), v.Environ()...)
	cmd.Env = append(cmd.Env, "CGO_ENABLED=1") // the race detector's
	cmd.Stderr = stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return r, fmt.Errorf("run tests: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return r, fmt.Errorf("run tests: %w", err)
	}
	read := r.read(pipe, stdout)
	if err := cmd.Wait(); err != nil {
		return r, errors.Join(fmt.Errorf("run tests: %w", err), read)
	}
	return r, errors.Join(read, r.check(release))
}
