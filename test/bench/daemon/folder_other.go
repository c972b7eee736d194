//go:build !linux

package main

import (
	"errors"
	"os"
)

// watchFolder needs inotify.
func watchFolder(string) (*os.File, error) {
	return nil, errors.New("watch folder: BenchmarkLatency runs on Linux only")
}
