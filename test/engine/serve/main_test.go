// Package serve tests podrun serve: supervision, manifest directories, evictions and shutdowns. A
// model checks days of supervision (TestSimulatedDay).
package serve

import (
	"testing"

	"github.com/podrun/podrun/test/engine/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
