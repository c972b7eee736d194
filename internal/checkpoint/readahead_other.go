//go:build !linux

package checkpoint

import "os"

// readAhead is for Linux: elsewhere the pages are read as the walk meets them.
func readAhead(*os.File, int64) {}
