package main

import "golang.org/x/sys/unix"

const machine = unix.AUDIT_ARCH_X86_64

var permittedByMachine = []uint32{unix.SYS_ARCH_PRCTL, unix.SYS_EPOLL_WAIT, unix.SYS_POLL, unix.SYS_TIME, unix.SYS_READLINK}
