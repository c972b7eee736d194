// Command kubejournal watches Kubernetes resources and writes a durable journal of what happens to them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // for TZ in the image, which has no files
)

func main() {
	ctx := interruptible(context.Background(), func(status int) {
		fmt.Fprintln(os.Stderr,
			"kubejournal: asked a second time, stopping without a commit; the next start reads back what was written")
		os.Exit(status)
	})
	if warning := badZone(os.Getenv("TZ")); warning != "" {
		fmt.Fprintln(os.Stderr, warning)
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// badZone returns a warning if TZ names no zone that Go knows, in which case Go takes UTC without a word.
func badZone(tz string) string {
	tz = strings.TrimPrefix(tz, ":")
	if tz == "" || tz == "UTC" || time.Local.String() != "UTC" {
		return ""
	}
	return fmt.Sprintf("kubejournal: warning: TZ: %q is not a time zone that is known here, times are in UTC;"+
		" write a name such as Europe/Berlin", tz)
}

// sameRequest is how long after the first signal another one is the same request. Some programs signal a process and
// its group, as timeout of coreutils does: two signals that arrive within a millisecond or so.
const sameRequest = 200 * time.Millisecond

// interruptible returns a context that the first SIGTERM or SIGINT ends, which asks for a clean stop. A later one calls
// exit at once, for a user who does not want to wait: what is not committed then is found again at the next start. The
// goroutine lives as long as the process.
func interruptible(parent context.Context, exit func(int)) context.Context {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go obey(signals, cancel, exit)
	return ctx
}

// obey calls stop at the first signal, and exit at the first one that is another request.
func obey(signals <-chan os.Signal, stop func(), exit func(int)) {
	<-signals
	asked := time.Now()
	stop()
	for range signals {
		if time.Since(asked) >= sameRequest {
			exit(exitFault)
		}
	}
}
