// Command torture has the daemon, the API server and etcd die at random while writers change objects, and a proxy
// between daemon and API server fail in every way that proxies do. It proves afterwards that the journal holds every
// write that the server acknowledged, once, and nothing of the other cluster that the proxy leads to at times; and
// after each fault of the proxy that every stream has caught up.
//
// Without -kills it tortures for a given time: see torment in round.go; -proxy chooses the proxy's faults. With -kills
// it kills the daemon that many times: see kill.go, and pipe.go for -output stdout. It prints one table, and ends with
// status 1 where anything was lost or repeated, an invariant did not hold, a stream stalled, or the daemon ended in a
// way that it should not. It then keeps the folder with journals, checkpoints and logs and says where it is.
//
//	option.go    the command line
//	bench.go     what a run needs: control plane, program, workload; taken down again
//	entry.go     resources and streams
//	daemon.go    the program with its config and its files
//	fault.go     what happens to the servers
//	proxied.go   what the proxy does
//	meter.go     the daemon's requests against a bound
//	round.go     rounds of torture
//	kill.go      kills of the daemon alone, journal in files
//	pipe.go      the same with the journal on stdout
//	takeover.go  ends of the term of one of two replicas
//	verify.go    the proof
//	report.go    the table
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
