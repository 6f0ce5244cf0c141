// Package update tests changes of running pods: updates in place, replacements, resizes, restarts
// and rollbacks.
package update

import (
	"testing"

	"github.com/podrun/podrun/test/engine/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
