package observe

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// pidWatch watches a container's first process with a pidfd.
type pidWatch struct {
	// exited is closed when the process exits. It is nil if the process cannot be watched.
	exited chan struct{}
	// gone is true if the process had exited before it could be watched.
	gone bool
	stop func()
}

// watchPID watches a container's process if the runtime reports its pid, and if the pid identifies a
// process of the container on this host. A runtime in another PID namespace, or one that runs virtual
// machines, reports pids that mean nothing on this host. When the process exits, watchPID calls onExit
// in another goroutine, but never after stop has returned. onExit may be nil. The caller must call
// stop, and must not hold a lock that onExit acquires when it does.
func watchPID(pid int, containerID string, onExit func()) pidWatch {
	none := pidWatch{stop: func() {}}
	if pid <= 0 {
		return none
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		none.gone = errors.Is(err, unix.ESRCH)
		// Any other error means that the kernel does not support pidfds.
		return none
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

// awaitPID watches a process in the background until the process exits or stop is called. It requires
// no thread: the Go runtime polls the descriptor together with all others.
func awaitPID(fd int, onExit func()) pidWatch {
	none := pidWatch{stop: func() {}}
	// The Go runtime polls a descriptor only if it is in non-blocking mode.
	if err := unix.SetNonblock(fd, true); err != nil {
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

// readable reports whether a pidfd is readable, which means that its process has exited. The
// process may still be a zombie.
func readable(pidfd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// runsIn reports whether a process is in a container's cgroup. With every cgroup driver and runtime,
// the cgroup's name contains the container's ID.
func runsIn(pid int, containerID string) bool {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && containerID != "" && strings.Contains(string(groups), containerID)
}

// initPIDNamespace is the inode of the host's PID namespace: PROC_PID_INIT_INO of the kernel.
const initPIDNamespace = "pid:[4026531836]"

// inHostPIDNamespace reports whether podrun runs in the host's PID namespace. A pid that the
// runtime reports identifies the same process only in this namespace.
var inHostPIDNamespace = sync.OnceValue(func() bool {
	ns, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && ns == initPIDNamespace
})

// exitedPID reports whether a process has certainly exited. The process may still be a zombie.
func exitedPID(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	return readable(fd)
}
