// Package podnetns works in the network namespace of the pods' bridge. For root, this is the host's. For an ordinary
// user, it is the namespace N of podrun-rootless (docs/design/rootless.md), while podrun itself uses the host's
// network.
package podnetns

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/rootless"
)

// ErrAbsent means that this process is not in the namespaces of podrun-rootless.
var ErrAbsent = errors.New("the network namespace of the pods does not exist, because podrun-rootless does not run")

// Separate reports whether the pods' bridge is in another network namespace than podrun.
func Separate() bool { return rootless.User() }

// Do calls f in the namespace, and returns its error. f must be short and must not block: all calls use the same
// thread.
func Do(f func() error) error {
	if !rootless.User() {
		return f()
	}
	if rootless.Inside() == nil {
		return ErrAbsent
	}
	t, err := thread()
	if err != nil {
		return fmt.Errorf("enter the network namespace of the pods: %w", err)
	}
	result := make(chan error, 1)
	t <- func() { result <- f() }
	return <-result
}

// thread returns the thread in N. A process needs only one: a socket belongs to the namespace of the thread that
// creates it, and waits for connections happen elsewhere.
var thread = sync.OnceValues(func() (chan<- func(), error) { return start(rootless.Inside().Netns) })

// start creates a thread in a network namespace, which executes functions until the process ends.
func start(netns string) (chan<- func(), error) {
	work := make(chan func())
	ready := make(chan error, 1)
	go serve(netns, work, ready)
	return work, <-ready
}

func serve(netns string, work chan func(), ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// /proc/PID/ns of this process must show the host's network. While this goroutine holds the main thread,
		// another one gets another thread.
		next := make(chan error, 1)
		go serve(netns, work, next)
		ready <- <-next
		runtime.UnlockOSThread()
		return
	}
	if err := enter(netns); err != nil {
		ready <- err
		return // the thread ends, because it is still locked
	}
	ready <- nil
	for f := range work {
		f()
	}
}

func enter(netns string) error {
	fd, err := unix.Open(netns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", netns, err)
	}
	defer unix.Close(fd)
	return unix.Setns(fd, unix.CLONE_NEWNET)
}

// Call is Do for a function with a result.
func Call[T any](f func() (T, error)) (result T, err error) {
	err = Do(func() (err error) {
		result, err = f()
		return err
	})
	return result, err
}
