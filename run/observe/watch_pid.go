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
	// exited is closed when the process ends; nil where it cannot be watched.
	exited chan struct{}
	// gone is true if it had ended before it could be watched.
	gone bool
	stop func()
}

// watchPID watches the process of a container, where the runtime reports its pid
// and the pid is one on this host, the container's own: a runtime in another
// PID namespace, or one that runs virtual machines, reports pids that mean
// nothing on this host. onExit, unless it is nil, is called when the process ends, from
// another goroutine and never after stop. The caller calls stop, without what onExit
// locks.
func watchPID(pid int, containerID string, onExit func()) pidWatch {
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
		return awaitPID(fd, onExit)
	}
	unix.Close(fd)
	return none
}

// awaitPID watches in the background until the process ends or stop is called. It
// takes no thread: the Go runtime polls the descriptor with all others.
func awaitPID(fd int, onExit func()) pidWatch {
	none := pidWatch{stop: func() {}}
	if err := unix.SetNonblock(fd, true); err != nil { // else the file is not polled
		unix.Close(fd)
		return none
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	conn, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return none
	}
	w := pidWatch{exited: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended := false
		err := conn.Read(func(fd uintptr) bool {
			ended = readable(int(fd))
			return ended
		})
		if err == nil && ended {
			close(w.exited)
			if onExit != nil {
				onExit()
			}
		}
	}()
	w.stop = func() {
		file.Close()
		<-done
	}
	return w
}

// readable reports whether the process of a pidfd has ended, maybe as a zombie.
func readable(pidfd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// runsIn reports whether a process is in the control group of a container: its
// ID is part of the group's name under every driver and runtime.
func runsIn(pid int, containerID string) bool {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && containerID != "" && strings.Contains(string(groups), containerID)
}
