package volume

import "syscall"

// unixStat is the type of os.FileInfo.Sys on Linux.
type unixStat = syscall.Stat_t
