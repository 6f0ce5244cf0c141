package observe

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// pidWatch watches a container's first process by a pidfd.
type pidWatch struct {
	// exited is closed when the process ends; nil where it can't be watched.
	exited chan struct{}
	// gone says that it had ended before it could be watched.
	gone bool
	stop func()
}

// watchPID watches the process of a container, where the runtime tells its pid
// and the pid is one on this host, the container's own: a runtime in another
// PID namespace, or one that runs virtual machines, tells pids that mean
// nothing here. The caller calls stop.
func watchPID(pid int, containerID string) pidWatch {
	none := pidWatch{stop: func() {}}
	if pid <= 0 {
		return none
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		none.gone = errors.Is(err, unix.ESRCH)
		return none // otherwise a kernel without pidfd
	}
	if readable(fd) {
		unix.Close(fd)
		none.gone = true
		return none
	}
	if runsIn(pid, containerID) {
		if wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC); err == nil {
			return awaitPID(fd, wake)
		}
	}
	unix.Close(fd)
	return none
}

// awaitPID watches in the background until the process ends or stop is called.
func awaitPID(fd, wake int) pidWatch {
	w := pidWatch{exited: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
		for {
			_, err := unix.Poll(fds, -1)
			if err == unix.EINTR {
				continue
			}
			if err == nil && fds[0].Revents != 0 {
				close(w.exited)
			}
			return
		}
	}()
	w.stop = func() {
		// Waking the poll can only fail if the counter is full: it is not.
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		<-done
		unix.Close(fd)
		unix.Close(wake)
	}
	return w
}

// readable tells whether the process of a pidfd has ended, maybe as a zombie.
func readable(pidfd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// runsIn tells whether a process is in the control group of a container: its
// ID is part of the group's name under every driver and runtime.
func runsIn(pid int, containerID string) bool {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && containerID != "" && strings.Contains(string(groups), containerID)
}
