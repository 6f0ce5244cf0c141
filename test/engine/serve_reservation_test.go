package engine

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestServeReleasesReservations checks that serve keeps no reservation of resources, and so no file descriptor, for a
// pod that it has updated in place.
func TestServeReleasesReservations(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		for _, name := range []string{"web", "db"} {
			s.files.write(file(name), servedPod(name))
		}
		time.Sleep(time.Minute)
		s.running("web")
		for _, name := range []string{"web", "db"} {
			s.files.write(file(name), strings.Replace(servedPod(name), "app:1", "app:2", 1))
		}
		time.Sleep(time.Minute)
		s.wantStarts("web", 2)
		if left, err := os.ReadDir(s.layout().Reservations()); err != nil && !os.IsNotExist(err) || len(left) > 0 {
			t.Errorf("reservations: %v, %v", left, err)
		}
	})
}
