package main

import (
	"runtime"
)

// thread is an OS thread in a network namespace. The Go runtime moves goroutines between threads, so
// code that depends on the namespace runs by do.
type thread struct{ work chan func() }

// newThread starts a thread, which calls enter first. The thread is never used for another purpose.
func newThread(enter func() error) (*thread, error) {
	t := &thread{work: make(chan func())}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := enter()
		started <- err
		if err != nil {
			return
		}
		for f := range t.work {
			f()
		}
	}()
	return t, <-started
}

// do calls f on the thread, and waits.
func (t *thread) do(f func() error) error {
	done := make(chan error, 1)
	t.work <- func() { done <- f() }
	return <-done
}

// end ends the thread.
func (t *thread) end() { close(t.work) }
