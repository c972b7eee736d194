// Command table makes one table of benchmark lines: each figure beside its baseline from the same run, the goal, and
// whether it is met, computed from the figures. It reads the files that it is given, or its standard input.
//
//	go run ./test/bench/table bin/bench.txt
//
// With -strict it fails when a goal is missed or was not measured. With -clusters it prints what clusters take, for
// docs/scale.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("table", flag.ContinueOnError)
	flags.SetOutput(stderr)
	strict := flags.Bool("strict", false, "fail when a goal is missed or was not measured")
	clusters := flags.Bool("clusters", false, "print the tables of docs/scale.md instead")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	r := results{}
	if err := r.readAll(flags.Args(), stdin); err != nil {
		fmt.Fprintln(stderr, "table:", err)
		return 1
	}
	if *clusters {
		clusterTables(stdout, r)
		return 0
	}
	missed := 0
	fmt.Fprint(stdout, header)
	for _, s := range sections {
		missed += s.print(stdout, r)
	}
	if *strict && missed > 0 {
		fmt.Fprintf(stderr, "table: %d goals are missed or were not measured\n", missed)
		return 1
	}
	return 0
}

func (r results) readAll(paths []string, stdin io.Reader) error {
	if len(paths) == 0 {
		return r.read(stdin)
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("read results: %w", err)
		}
		err = r.read(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
