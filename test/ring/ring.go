// Package ring selects the tests of a run. The tests form three rings:
//
//   - ring 1, `make test`: cannot fail by chance, and takes a few minutes;
//   - ring 2, `make test-all`: ring 1, and samples of the long tests; runs before an issue is closed;
//   - ring 3, `make torture`: the long tests in full; runs before a release.
//
// The environment variable PODRUN_TEST_RING is the number of the ring; the default is 1.
package ring

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

const variable = "PODRUN_TEST_RING"

// names are the targets of make that run the rings.
var names = [...]string{1: "make test", 2: "make test-all", 3: "make torture"}

// Is reports whether the tests of a ring run: PODRUN_TEST_RING is this ring or an outer one. It
// panics if the variable is not a ring.
func Is(ring int) bool { return number(os.Getenv(variable)) >= ring }

func number(value string) int {
	if value == "" {
		return 1
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n >= len(names) {
		panic(fmt.Sprintf("%s=%s: use 1, 2 or 3", variable, value))
	}
	return n
}

// Require skips a test that runs in an outer ring only.
func Require(t testing.TB, ring int) {
	t.Helper()
	if !Is(ring) {
		t.Skipf("ring %d: '%s' runs this test (%s=%d)", ring, names[ring], variable, ring)
	}
}

// Package ends the test process successfully if the tests of a package run in an outer ring only.
// It is the first statement of such a package's TestMain.
func Package(ring int) {
	if !Is(ring) {
		fmt.Printf("skipped: ring %d: '%s' runs this package (%s=%d)\n", ring, names[ring], variable, ring)
		os.Exit(0)
	}
}
