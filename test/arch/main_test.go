// Package arch tests the architecture: which packages may import each other, whether planning is
// pure, names, documentation, and what the binary links. The tests read the source from the
// repository's root.
package arch

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
