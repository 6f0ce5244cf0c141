package treetest

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Syncs calls the function do on a new thread, and returns the paths of the files and directories
// that this thread syncs, in order. If do starts goroutines, Syncs does not detect the files that
// they sync. It installs a seccomp filter that makes the kernel report each fsync. The filter ends
// with the thread.
func Syncs(t testing.TB, do func()) []string {
	t.Helper()
	over, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	installed := make(chan int, 1)
	failed := make(chan error, 1)
	go func() {
		defer end.Close()
		// The thread is never unlocked, so that it ends with this goroutine.
		runtime.LockOSThread()
		fd, err := askForSyncs()
		if err != nil {
			failed <- err
			return
		}
		installed <- fd
		do()
	}()
	var fd int
	select {
	case err := <-failed:
		t.Skipf("the kernel does not report fsync (seccomp): %v", err)
	case fd = <-installed:
	}
	defer unix.Close(fd)
	var paths []string
	for {
		path, err := nextSync(fd, int(over.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		if path == "" {
			return paths
		}
		paths = append(paths, path)
	}
}

// askForSyncs makes the kernel report each fsync of this thread to the returned descriptor.
func askForSyncs() (int, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	code := []unix.SockFilter{
		// This instruction loads the number of the system call.
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return 0, os.NewSyscallError("seccomp", errno)
	}
	return int(fd), nil
}

// nextSync waits for the next fsync, lets it continue and returns its path. The argument over is
// the end of a pipe. When the other end is closed, nextSync returns "".
func nextSync(fd, over int) (string, error) {
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(over), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			return "", err
		}
		if ready[0].Revents&unix.POLLIN == 0 {
			return "", nil
		}
		// The variables call and response have the layouts of struct seccomp_notif and struct
		// seccomp_notif_resp.
		var call struct {
			id         uint64
			pid, flags uint32
			number     int32
			arch       uint32
			at         uint64
			args       [6]uint64
		}
		switch errno := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&call)); errno {
		case 0:
		// A signal has interrupted the call, which is then repeated.
		case unix.EINTR, unix.ENOENT:
			continue
		default:
			return "", os.NewSyscallError("ioctl", errno)
		}
		path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", call.args[0]))
		answer := struct {
			id     uint64
			result int64
			errno  int32
			flags  uint32
		}{id: call.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		switch errno := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer)); errno {
		case 0:
		// A signal has interrupted the call, which is then repeated.
		case unix.ENOENT:
			continue
		default:
			return "", os.NewSyscallError("ioctl", errno)
		}
		return path, err
	}
}

func ioctl(fd int, request uintptr, data unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(data))
	return errno
}
