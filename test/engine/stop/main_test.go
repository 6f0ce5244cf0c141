// Package stop tests how the engine stops and deletes pods, and removes what is unused.
package stop

import (
	"testing"

	"github.com/podrun/podrun/test/engine/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
