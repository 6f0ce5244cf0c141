// Package heap delays the first garbage collection, and disables the sampling of
// allocations.
//
// A complete apply allocates about 8 MB. With Go's default, the collector runs once during
// the initialization of packages and once or twice afterwards. This takes 2 to 3 ms of the
// 20 ms of podrun's own work, without reducing the peak memory (31 MB in both cases, most of
// it pages of the binary). At 300 %, the first collection happens at 12 MB: short commands
// never collect, and long ones (logs -f) keep a heap of a few megabytes.
//
// Sampling records the stack of one allocation in 512 KB for runtime.MemProfile, which
// podrun never calls. The linker disables sampling if runtime.MemProfile is unreachable. It
// is reachable in podrun because grpc links runtime/pprof, for labels of goroutines;
// therefore this package disables sampling itself.
//
// The package imports only os, runtime and time, so that it is initialized before the large
// packages: Go initializes packages that are ready in the order of their import paths (The
// Go Programming Language Specification, "Program initialization").
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// percent is the argument of debug.SetGCPercent, unless GOGC is set.
const percent = 300

// soft is the argument of debug.SetMemoryLimit, in bytes, unless GOMEMLIMIT is set. Only the
// largest inputs reach it, for which percent would allow three times the live heap as
// garbage: with the limit, a thousand pods require 215 MB instead of 465 MB, and a quarter
// more time.
const soft = 128 << 20

// Began is when this package was initialized, before the slow parts of the program's start.
var Began = time.Now()

func init() {
	runtime.MemProfileRate = 0
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(soft)
	}
}
