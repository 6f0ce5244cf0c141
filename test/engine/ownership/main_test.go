// Package ownership tests locks, ownership and undo: two commands on one pod (TestPairs), killed
// commands and failing calls.
package ownership

import (
	"testing"

	"github.com/podrun/podrun/test/engine/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
