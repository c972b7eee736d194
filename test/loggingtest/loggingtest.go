// Package loggingtest keeps the log of the Kubernetes client out of the output of tests. Whoever makes a request gets
// its error; that the client logs it as well is noise where tests kill servers under it.
package loggingtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// maxHeld is how many bytes of the log are held, the last ones.
const maxHeld = 64 << 10

// Tests is what runs all tests of a binary: *testing.M, or what wraps it.
type Tests interface{ Run() int }

// Hold wraps the tests so that the client's log is written to stderr after them, and only when one of them has failed.
func Hold(tests Tests) Tests { return &held{tests: tests, out: os.Stderr} }

type held struct {
	tests Tests
	out   io.Writer

	mu  sync.Mutex
	log []byte // guarded by mu
}

// Run implements Tests.
func (h *held) Run() int {
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(h))))
	code := h.tests.Run()
	h.mu.Lock()
	defer h.mu.Unlock()
	if code != 0 && len(h.log) > 0 {
		fmt.Fprintf(h.out, "log of the Kubernetes client:\n%s", h.log)
	}
	return code
}

// Write implements io.Writer.
func (h *held) Write(line []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, line...)
	if over := len(h.log) - maxHeld; over > 0 {
		end := over + bytes.IndexByte(h.log[over:], '\n') + 1 // whole lines
		h.log = slices.Delete(h.log, 0, end)
	}
	return len(line), nil
}
