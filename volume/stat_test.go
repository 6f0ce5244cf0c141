package volume

import "syscall"

// unixStat is what os.FileInfo.Sys holds here.
type unixStat = syscall.Stat_t
