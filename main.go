// Podrun runs a Kubernetes Pod on one host, as the kubelet would, without a
// cluster. See README.md for what it does and ARCHITECTURE.md for how.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/podrun/podrun/cmd"
	_ "github.com/podrun/podrun/heap" // sets the pace of garbage collection, before all else
)

// version is set by the linker (make build).
var version = "devel"

func main() {
	os.Exit(Main())
}

// Main is main without the exit, for the tests that run podrun in scripts.
func Main() int {
	ctx, stop := signalContext()
	defer stop()
	return cmd.Main(ctx, os.Args[1:], cmd.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, version)
}

// signalContext returns a context that the first SIGINT, SIGTERM or SIGHUP ends, with
// the signal as its cause: signal.NotifyContext can't tell them apart. A second signal
// ends the process at once. SIGHUP stays ignored where it was (nohup), and `podrun
// serve` takes it over.
func signalContext() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		for n := 0; ; n++ {
			sig, open := <-signals
			if !open {
				return
			}
			s := sig.(syscall.Signal)
			if n > 0 {
				os.Exit(128 + int(s))
			}
			cancel(cmd.SignalError{Signal: s})
		}
	}()
	return ctx, func() { signal.Stop(signals); close(signals); cancel(nil) }
}
