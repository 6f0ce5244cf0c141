// Package report tests what podrun reports: the reports of operations, get, logs, exec, top and the
// HTTP API.
package report

import (
	"testing"

	"github.com/podrun/podrun/test/engine/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
