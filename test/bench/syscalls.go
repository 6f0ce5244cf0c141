package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// syscallCounter counts the system calls of a process with a tracepoint of the kernel, which, unlike
// strace, does not slow the process down.
type syscallCounter struct{ events []int }

// countSyscalls counts the system calls of all threads of a process, and of threads that they
// create.
func countSyscalls(pid int) (*syscallCounter, error) {
	id, err := tracepoint("raw_syscalls/sys_enter")
	if err != nil {
		return nil, err
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	c := &syscallCounter{}
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		attr := &unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Size: unix.PERF_ATTR_SIZE_VER5, Config: id, Bits: unix.PerfBitInherit}
		fd, err := unix.PerfEventOpen(attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("count the system calls of thread %d: %w", tid, err), c.close())
		}
		c.events = append(c.events, fd)
	}
	return c, nil
}

// tracepoint returns the kernel's number of a tracepoint. If tracefs is not mounted, it mounts tracefs
// temporarily.
func tracepoint(name string) (_ uint64, err error) {
	dir := "/sys/kernel/tracing"
	if _, err := os.Stat(filepath.Join(dir, "events")); errors.Is(err, fs.ErrNotExist) {
		if dir, err = os.MkdirTemp("", "podrun-bench-tracing-"); err != nil {
			return 0, err
		}
		defer os.Remove(dir)
		if err := unix.Mount("tracefs", dir, "tracefs", 0, ""); err != nil {
			return 0, fmt.Errorf("mount tracefs: %w", err)
		}
		defer func() { err = errors.Join(err, unix.Unmount(dir, 0)) }()
	}
	data, err := os.ReadFile(filepath.Join(dir, "events", name, "id"))
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
}

// count returns the number of system calls so far.
func (c *syscallCounter) count() (total uint64, err error) {
	for _, fd := range c.events {
		var value [8]byte
		if _, err := unix.Read(fd, value[:]); err != nil {
			return 0, fmt.Errorf("read a count of system calls: %w", err)
		}
		total += binary.NativeEndian.Uint64(value[:])
	}
	return total, nil
}

func (c *syscallCounter) close() (err error) {
	for _, fd := range c.events {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}
