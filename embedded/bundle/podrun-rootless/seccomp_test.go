package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filteredEnv makes TestFilteredProcess apply the filter.
const filteredEnv = "PODRUN_ROOTLESS_TEST_FILTERED"

// TestFilter checks which system calls a process with the filter can make.
func TestFilter(t *testing.T) {
	c := exec.Command(filepath.Join(os.Getenv(hostEnv), "bin", "podrun-rootless"), "-test.run=^TestFilteredProcess$", "-test.v") // without cgo, as in the archive
	c.Env = append(os.Environ(), filteredEnv+"=1")
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestFilteredProcess")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFilteredProcess runs in the process of TestFilter.
func TestFilteredProcess(t *testing.T) {
	if os.Getenv(filteredEnv) == "" {
		t.Skip("TestFilter executes it")
	}
	dir := t.TempDir()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	// The kernel applies the filter to all threads only if each has no_new_privs, or the caller has CAP_SYS_ADMIN.
	if err := filterCalls(); err != nil {
		t.Fatal(err)
	}
	zero := [64]byte{}
	p := uintptr(unsafe.Pointer(&zero))
	for name, call := range map[string][4]uintptr{
		"execve":        {unix.SYS_EXECVE, p, p, p},
		"execveat":      {unix.SYS_EXECVEAT, 0, p, p},
		"fork":          {unix.SYS_CLONE, uintptr(unix.SIGCHLD)},
		"clone3":        {unix.SYS_CLONE3, p, 64},
		"ptrace":        {unix.SYS_PTRACE, unix.PTRACE_TRACEME},
		"mount":         {unix.SYS_MOUNT, p, p, p},
		"unshare":       {unix.SYS_UNSHARE, unix.CLONE_NEWUSER},
		"setns":         {unix.SYS_SETNS, 0, 0},
		"bpf":           {unix.SYS_BPF, 0, p, 64},
		"keyctl":        {unix.SYS_KEYCTL, 0},
		"io_uring":      {unix.SYS_IO_URING_SETUP, 1, p},
		"userfaultfd":   {unix.SYS_USERFAULTFD, 0},
		"perf_event":    {unix.SYS_PERF_EVENT_OPEN, p, 0, 0},
		"process_vm":    {unix.SYS_PROCESS_VM_READV, uintptr(os.Getpid())},
		"pidfd_getfd":   {unix.SYS_PIDFD_GETFD, 0, 0, 0},
		"memfd_create":  {unix.SYS_MEMFD_CREATE, p, 0},
		"ioctl":         {unix.SYS_IOCTL, 1, unix.TIOCSTI, p},
		"mprotect":      {unix.SYS_MPROTECT, p &^ 4095, 4096, unix.PROT_READ | unix.PROT_EXEC},
		"mmap":          {unix.SYS_MMAP, 0, 4096, unix.PROT_EXEC},
		"prctl":         {unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1},
		"seccomp":       {unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, p},
		"kill":          {unix.SYS_KILL, uintptr(os.Getppid()), 0},
		"tgkill":        {unix.SYS_TGKILL, uintptr(os.Getppid()), uintptr(os.Getppid()), 0},
		"netlink":       {unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, 0},
		"packet socket": {unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0},
		"vsock":         {unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0},
		"crypto socket": {unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
	} {
		if _, _, errno := syscall.RawSyscall(call[0], call[1], call[2], call[3]); errno != unix.EPERM {
			t.Errorf("%s: %v, want EPERM", name, errno)
		}
	}
	if err := checkThreads(os.Getpid(), "Seccomp:\t2\n"); err != nil {
		t.Error(err)
	}
	works(t, dir)
}

// works checks what podrun-rootless requires: memory, threads, connections, files in a directory.
func works(t *testing.T, dir string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			runtime.LockOSThread() // a new thread for each
			c, err := net.Dial("tcp", l.Addr().String())
			if err == nil {
				_, err = c.Write(bytes.Repeat([]byte("x"), 1<<20))
				err = errors.Join(err, c.Close())
			}
			done <- err
		}()
	}
	for range cap(done) {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := new(bytes.Buffer).ReadFrom(c); n != 1<<20 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		c.Close()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	runtime.GC()
	path := filepath.Join(dir, "ports.json")
	if err := replaceFile(path, []byte(strings.Repeat("x", 10))); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(path); err != nil || len(data) != 10 {
		t.Errorf("%q, %v", data, err)
	}
}
