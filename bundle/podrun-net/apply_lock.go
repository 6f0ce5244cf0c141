package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockLimit bounds the wait for another podrun-net: each holds the lock for
// milliseconds.
const lockLimit = 20 * time.Second

// lock keeps other podrun-nets from changing rules of this network namespace, since
// whether an attachment is a network's last must not change before its table is removed.
// The lock is the namespace's own file: no file is left, and the kernel releases it when
// the process ends.
func lock() (unlock func(), err error) {
	f, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			f.Close()
			return nil, fmt.Errorf("lock /proc/self/ns/net: %w", err)
		case time.Since(start) > lockLimit:
			f.Close()
			return nil, fmt.Errorf("lock /proc/self/ns/net: another podrun-net holds it for more than %s: end that one", lockLimit)
		}
	}
}
