//go:build !(linux && amd64)

// Command subject runs on linux/amd64.
package main

import (
	"fmt"
	"os"
)

func main() { fmt.Fprintln(os.Stderr, "subject: runs on linux/amd64") }
