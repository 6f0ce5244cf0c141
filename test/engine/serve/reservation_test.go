package serve

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/test/engine/rig"
)

// TestServeReleasesReservations checks that serve keeps no reservation of resources, and so no file descriptor, for a
// pod that it has updated in place.
func TestServeReleasesReservations(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		for _, name := range []string{"web", "db"} {
			s.Files.Write(rig.File(name), rig.ServedPod(name))
		}
		time.Sleep(time.Minute)
		s.Running("web")
		for _, name := range []string{"web", "db"} {
			s.Files.Write(rig.File(name), strings.Replace(rig.ServedPod(name), "app:1", "app:2", 1))
		}
		time.Sleep(time.Minute)
		s.WantStarts("web", 2)
		if left, err := os.ReadDir(s.Layout().Reservations()); err != nil && !os.IsNotExist(err) || len(left) > 0 {
			t.Errorf("reservations: %v, %v", left, err)
		}
	})
}
