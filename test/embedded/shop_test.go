package embedded

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/podrun/podrun/test/ring"
	"github.com/podrun/podrun/test/shop"
)

// TestServicesUnderKills kills PODRUN_SHOP_KILLS pods (default 4) of which a client uses the Services, half of them
// after a reboot. After podrun has reported the pods ready, no request may fail. The check shop of
// test/guest does the same with 50 kills.
func TestServicesUnderKills(t *testing.T) {
	ring.Require(t, 2)
	kills := 4
	if n, err := strconv.Atoi(os.Getenv("PODRUN_SHOP_KILLS")); err == nil {
		kills = n
	}
	r := newRig(t)
	dir := filepath.Join(r.dir, "shop")
	for _, path := range []string{dir, filepath.Join(r.dir, "manifests")} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.write("config.yaml", shop.Settings)
	r.write("manifests/shop.yaml", shop.Manifest(imageName, dir, 20*time.Millisecond))
	s := shop.Shop{Layout: r.layout, Dir: dir, Patience: 10 * time.Minute, Log: t.Logf,
		Podrun: func(args ...string) (string, error) {
			out, err := r.command(bundle, args...).Output()
			return string(out), err
		}}
	for _, boot := range []string{"the first boot", "the second boot"} {
		serve := r.serve(bundle, "--config", filepath.Join(r.dir, "config.yaml"))
		report, err := s.Run(t.Context(), kills/2)
		t.Logf("%s: %s", boot, report)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range report.Failed {
			t.Errorf("%s: a request failed after readiness: %s", boot, text)
		}
		serve.stop()
		if boot == "the first boot" {
			r.reboot()
		}
	}
	r.must("delete", "--all")
	r.must("delete", "svc", "--all")
	r.hasNoService()
}
