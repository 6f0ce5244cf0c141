// Package heap delays the first garbage collection of a command, makes the collections of a supervisor
// more frequent, and disables the sampling of allocations.
//
// A complete apply allocates about 8 MB. With Go's default, the collector runs once while packages
// are initialized, and once or twice afterwards. This takes 2 to 3 ms of the 20 ms of podrun's own
// work. It does not reduce the peak memory, which is 31 MB in both cases and consists mostly of
// pages of the binary. At 300 %, the first collection happens at 12 MB. Therefore, the collector
// never runs in short commands, and the heap of long ones (logs -f) has a few megabytes.
//
// For runtime.MemProfile, Go records the stack of one allocation in 512 KB. podrun never calls
// runtime.MemProfile. The linker disables this sampling if runtime.MemProfile is unreachable. In
// podrun, the function is reachable, because grpc links runtime/pprof for labels of goroutines.
// Therefore, this package disables the sampling.
//
// The package imports only os, runtime, sync and time, so that Go initializes it before the large
// packages. Go initializes packages that are ready in the order of their import paths (The Go
// Programming Language Specification, "Program initialization").
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// percent is the argument of debug.SetGCPercent until the first collection if GOGC is not set.
const percent = 300

// laterPercent is the argument from the first collection on. Only commands with many pods reach it. Peak memory and page
// faults of an apply of 50 pods on the fake runtime: 61 MB and 7,450 if percent remains, 57 MB and 6,300 with 100.
const laterPercent = 100

// supervisorPercent is the argument of debug.SetGCPercent in a supervisor if GOGC is not set. Private memory
// and CPU time a minute of an idle serve with 50 pods and 100 probes (make bench-serve RUN=idle, one run of
// each on a busy machine): 48 MB and 0.12 s at 300 %, 33 MB and 0.12 s at 100 %, 26 MB and 0.14 s at 50 %,
// 20 MB and 0.25 s at 20 %.
const supervisorPercent = 20

// soft is the argument of debug.SetMemoryLimit, in bytes, if GOMEMLIMIT is not set. Only the
// largest inputs reach it. For such inputs, percent alone would allow garbage of three times the
// size of the live heap. With the limit, a command with a thousand pods uses 215 MB instead of 465
// MB, but takes a quarter longer.
const soft = 128 << 20

// Began is the time at which this package was initialized, before the slow parts of the
// program's start.
var Began = time.Now()

// collected changes the percentage after the first collection, unless Supervise was called before.
var collected sync.Once

func init() {
	runtime.MemProfileRate = 0
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
		runtime.AddCleanup(new([64]byte), func(struct{}) { collected.Do(func() { debug.SetGCPercent(laterPercent) }) }, struct{}{})
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(soft)
	}
}

// Supervise makes the collections more frequent, because a supervisor shares the host's memory with its
// pods for a long time. The Go runtime then returns unused memory to the system itself.
func Supervise() {
	if os.Getenv("GOGC") == "" {
		collected.Do(func() {})
		debug.SetGCPercent(supervisorPercent)
	}
}
