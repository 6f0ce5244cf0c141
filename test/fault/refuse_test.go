package fault

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refuseEnv is an environment variable that lists the calls that the kernel refuses to a podrun
// process: CALL ERRNO.
const refuseEnv = "PODRUN_FAULT_REFUSE"

// refusal is a class of system calls that all fail with the same error.
type refusal struct {
	calls string // a key of refusedCalls; "" refuses nothing
	errno unix.Errno
}

func (r refusal) env() []string {
	if r.calls == "" {
		return nil
	}
	return []string{fmt.Sprintf("%s=%s %d", refuseEnv, r.calls, int(r.errno))}
}

// refusedCall is a system call. The kernel refuses it if all the given bits are set in the argument
// with the index flag.
type refusedCall struct{ number, flag, bits uint32 }

var refusedCalls = map[string][]refusedCall{
	"create":  {{unix.SYS_OPENAT, 2, unix.O_CREAT}},
	"mkdir":   {{number: unix.SYS_MKDIRAT}},
	"rename":  {{number: unix.SYS_RENAMEAT}, {number: unix.SYS_RENAMEAT2}},
	"fsync":   {{number: unix.SYS_FSYNC}, {number: unix.SYS_FDATASYNC}, {number: unix.SYS_SYNCFS}},
	"symlink": {{number: unix.SYS_SYMLINKAT}},
}

// refuse installs a seccomp filter, which makes the kernel refuse calls of this process from now
// on. It is for tests of errors such as EDQUOT, which no file system in the tests returns.
func refuse(text string) error {
	name, number, _ := strings.Cut(text, " ")
	errno, err := strconv.ParseUint(number, 10, 16)
	if err != nil || len(refusedCalls[name]) == 0 {
		return fmt.Errorf("%s=%q", refuseEnv, text)
	}
	const result = unix.SECCOMP_RET_ERRNO
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	var filter []unix.SockFilter
	for _, c := range refusedCalls[name] {
		// struct seccomp_data begins with the number of the call. The arguments, of 8 bytes each,
		// begin at offset 16.
		filter = append(filter, load(0),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: c.number, Jf: 3})
		if c.bits == 0 {
			filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: 1}, load(0))
		} else {
			filter = append(filter, load(16+8*c.flag), unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: c.bits, Jf: 1})
		}
		filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: result | uint32(errno)})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if e != 0 {
		return os.NewSyscallError("seccomp", e)
	}
	return nil
}
