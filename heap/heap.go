// Package heap lets podrun's heap grow before garbage is first collected.
//
// A whole apply allocates some 8 MB; at Go's default the collector runs once
// while packages are initialized and once or twice more, which costs 2 to 3 ms
// of the 20 that podrun needs for itself and saves no memory at the peak (31 MB
// with and without, most of it the binary's own pages). At 300 the first
// collection comes at 12 MB: commands that start something and end never have
// one, and those that stay (logs -f) keep a heap of a few megabytes.
//
// It is a package of its own, that imports nothing but runtime/debug, so that
// it is initialized before the large packages: Go goes by import path among
// those that are ready (The Go Programming Language Specification, "Program
// initialization").
package heap

import (
	"os"
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
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(soft)
	}
}
