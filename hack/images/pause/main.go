// Pause is the process of a pod's sandbox. It keeps the namespaces alive, reaps orphaned
// processes if the pod shares its process namespace, and exits with code 0 on SIGTERM or
// SIGINT.
package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGCHLD)
	for s := range signals {
		if s != unix.SIGCHLD {
			return
		}
		// One SIGCHLD may stand for several children that have exited.
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && err != unix.EINTR {
				break
			}
		}
	}
}
