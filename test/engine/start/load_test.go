package start

import (
	"errors"
	"strings"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestLoadIntoAnotherRuntime checks that the command fails immediately if the runtime is not
// containerd, because only containerd can load images.
func TestLoadIntoAnotherRuntime(t *testing.T) {
	t.Parallel()
	r := rig.New(t, critest.Version("cri-o", "1.31.0"))
	_, err := imagestore.Load(t.Context(), r.Engine(), strings.NewReader("no archive"))
	var e *problem.Error
	if !errors.As(err, &e) || e.Kind != problem.Refused || !strings.Contains(err.Error(), "podrun can load images only into containerd, but the runtime is cri-o") || !strings.Contains(e.Hint, "skopeo copy docker-archive:FILE containers-storage:NAME") {
		t.Errorf("%v", err)
	}
}
