package main

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The filter of system calls protects the host's kernel from a process that pods have taken over by their packets. It
// permits what the Go runtime, package net, gVisor's packet sockets and the files of this process require, and fails
// other calls with EPERM, so that a missing call is an error and not the end of the process. The process can neither
// execute a program nor create another process.

// permittedCalls are permitted with all arguments; permittedByMachine has those of one architecture.
var permittedCalls = []uint32{
	// the Go runtime: memory, threads, time, signals, polling
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_BRK, unix.SYS_FUTEX, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME,
	unix.SYS_GETTIMEOFDAY, unix.SYS_SETITIMER, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2, unix.SYS_PPOLL,
	unix.SYS_GETRANDOM, unix.SYS_UNAME, unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID,
	unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_PRLIMIT64, unix.SYS_GETRLIMIT,
	// descriptors
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_LSEEK,
	unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_FLOCK, unix.SYS_SPLICE, unix.SYS_SENDFILE,
	// sockets that exist
	unix.SYS_BIND, unix.SYS_CONNECT, unix.SYS_LISTEN, unix.SYS_ACCEPT4, unix.SYS_SHUTDOWN, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
	unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT, unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG, unix.SYS_RECVMMSG,
	// files: ports.json, the record, /etc/resolv.conf
	unix.SYS_OPENAT, unix.SYS_FSTAT, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_READLINKAT, unix.SYS_GETDENTS64,
	unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_FTRUNCATE, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_GETCWD,
}

// Offsets in struct seccomp_data (linux/seccomp.h). Both machines are little-endian: the lower half of an argument is
// first.
const (
	numberAt  = 0
	machineAt = 4
)

func argumentAt(n uint32) uint32 { return 16 + 8*n }

// instructions is a program for the kernel's classic BPF machine.
type instructions []unix.SockFilter

// load loads a word of struct seccomp_data.
func (p *instructions) load(at uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at})
}

// jump compares the word that was loaded last, and skips instructions.
func (p *instructions) jump(operation uint16, value uint32, ifTrue, ifFalse uint8) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | operation, K: value, Jt: ifTrue, Jf: ifFalse})
}

// end ends the program with a result.
func (p *instructions) end(result uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: result})
}

const (
	permit = unix.SECCOMP_RET_ALLOW
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
)

// check permits a call only if the comparison of its argument with one of the values has a result. After another call,
// its number is still loaded.
func (p *instructions) check(call, argument uint32, operation uint16, result bool, values ...uint32) {
	p.jump(unix.BPF_JEQ, call, 0, uint8(2+2*len(values)))
	p.load(argumentAt(argument))
	for _, value := range values {
		if result {
			p.jump(operation, value, 0, 1)
		} else {
			p.jump(operation, value, 1, 0)
		}
		p.end(permit)
	}
	p.end(refuse)
}

// filter returns the program for a process.
func filter(pid int) instructions {
	var p instructions
	p.load(machineAt)
	p.jump(unix.BPF_JEQ, machine, 1, 0)
	p.end(refuse) // such as a call of 32-bit x86
	p.load(numberAt)
	for _, call := range slices.Concat(permittedCalls, permittedByMachine) {
		p.jump(unix.BPF_JEQ, call, 0, 1)
		p.end(permit)
	}
	p.check(unix.SYS_CLONE, 0, unix.BPF_JSET, true, unix.CLONE_THREAD)
	p.check(unix.SYS_MMAP, 2, unix.BPF_JSET, false, unix.PROT_EXEC)
	p.check(unix.SYS_PRCTL, 0, unix.BPF_JEQ, true, unix.PR_SET_VMA)
	p.check(unix.SYS_TGKILL, 0, unix.BPF_JEQ, true, uint32(pid)) // the runtime preempts its threads
	p.check(unix.SYS_KILL, 0, unix.BPF_JEQ, true, uint32(pid))   // the end after a signal
	p.check(unix.SYS_SOCKET, 0, unix.BPF_JEQ, true, unix.AF_INET, unix.AF_INET6)
	p.end(refuse)
	return p
}

// filterCalls applies the filter to all threads. It requires no_new_privs.
func filterCalls() error {
	p := filter(os.Getpid())
	program := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	switch {
	case errno == unix.ENOSYS || errno == unix.EINVAL:
		return nil // the kernel has no filters
	case errno != 0:
		return fmt.Errorf("set the filter of system calls: %w", errno)
	case thread != 0:
		return fmt.Errorf("set the filter of system calls: thread %d has another one", thread)
	}
	return nil
}
