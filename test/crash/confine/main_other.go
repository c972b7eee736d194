//go:build !(linux && amd64)

// Command confine runs on linux/amd64.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "confine: runs on linux/amd64")
	os.Exit(125)
}
