package rig

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/podrun/podrun/test/inherited"
)

// Main runs the tests of a package, or the job of a child process (see Job). It hides all programs
// from the engine, for two reasons: these tests must not depend on this host's firewall rules, and a
// process that one test starts inherits the locks of the other tests until it executes its program.
func Main(m *testing.M) {
	// By default, Go runs one test per CPU in parallel, but parallel tests of these packages wait most of the time.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	inherited.Reset()
	os.Unsetenv("PATH")
	if job := os.Getenv(jobVariable); job != "" {
		os.Exit(runChild(job))
	}
	os.Exit(m.Run())
}
