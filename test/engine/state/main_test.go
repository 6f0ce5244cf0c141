// Package state tests what podrun stores: damaged, newer and older state files, Secrets, volumes
// and root directories.
package state

import (
	"testing"

	"github.com/podrun/podrun/test/engine/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
