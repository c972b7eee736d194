//go:build !(linux && amd64)

package crash

import (
	"runtime"
	"testing"
)

// The tracer reads and writes registers. Nothing is skipped where it cannot: the promise is then not shown.
func TestCrash(t *testing.T) {
	t.Fatalf("package crash runs on linux/amd64, not on %s/%s", runtime.GOOS, runtime.GOARCH)
}
