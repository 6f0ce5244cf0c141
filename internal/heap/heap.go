// Package heap lets podrun's heap grow before the first garbage collection, and turns the
// sampling of allocations off.
//
// A complete apply allocates about 8 MB. With Go's default, the collector runs once
// during the initialization of packages and once or twice afterwards. This takes 2 to 3
// ms of the 20 ms of podrun's own work, without reducing the peak memory (31 MB in both
// cases, most of it pages of the binary). At 300 %, the first collection happens at 12
// MB: short commands never collect, and long ones (logs -f) keep a heap of a few
// megabytes.
//
// Sampling records the stack of one allocation in 512 KB for runtime.MemProfile, which
// podrun never calls. The linker turns sampling off if nothing reaches
// runtime.MemProfile; this package does so whatever a dependency reaches: grpc links
// runtime/pprof, for labels of goroutines.
//
// The package imports only os, runtime and time, so that it is initialized before the large
// packages: Go initializes packages that are ready in the order of their import paths
// (The Go Programming Language Specification, "Program initialization").
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// percent is for debug.SetGCPercent; GOGC, where it is set, wins.
const percent = 300

// soft is for debug.SetMemoryLimit, in bytes; GOMEMLIMIT, where it is set, wins.
// Only the largest inputs come there, where three times what lives would be
// garbage: a thousand pods took 465 MB, and take 215 in a quarter more time.
const soft = 128 << 20

// Began is when this package was initialized, before all that takes long at a start.
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
