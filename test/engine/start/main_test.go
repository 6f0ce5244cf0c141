// Package start tests how the engine starts pods: order, images, hooks, mounts and refusals.
package start

import (
	"testing"

	"github.com/podrun/podrun/test/engine/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
