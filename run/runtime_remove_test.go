package run

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/store"
)

// TestPodsAreRemovedWithoutTheRuntime removes a pod while the runtime that ran it is gone.
func TestPodsAreRemovedWithoutTheRuntime(t *testing.T) {
	r := newRig(t)
	if result := r.apply(one("Always")); result.Err != nil {
		t.Fatal(result.Err)
	}
	r.rt.Close()
	runtime := NewRuntime(r.settings, RuntimeOptions{Command: "podrun test"})
	if err := embedded.MakeDirs(runtime.layout); err != nil {
		t.Fatal(err)
	}
	if err := runtime.removeStored(context.Background()); err != nil {
		t.Fatal(err)
	}
	if pods, err := store.StoredPods(r.settings.Layout()); err != nil || len(pods) > 0 {
		t.Errorf("pods are left: %v, %v", pods, err)
	}
	for _, dir := range []string{r.settings.PodLogsDir, r.settings.ContainerLogsDir} {
		if left, err := os.ReadDir(dir); err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
	for _, dir := range cgroupsOf(r.settings.CgroupRoot) {
		t.Errorf("%s is left", dir)
	}
	if err := runtime.removeStored(context.Background()); err != nil { // nothing is left to do
		t.Error(err)
	}
}

func TestTheSandboxImageIsNotRemoved(t *testing.T) {
	r := newRig(t)
	r.rt.AddImage(critest.Image{Name: embedded.PauseImage})
	err := r.engine().RemoveImages(context.Background(), []string{embedded.PauseImage, "registry.example/db:2"}, true)
	wantErr(t, err, problem.Refused, "sandbox image")
	list, err := r.engine().Images(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range list {
		names = append(names, i.Names...)
	}
	if all := strings.Join(names, " "); !strings.Contains(all, embedded.PauseImage) || strings.Contains(all, "db:2") {
		t.Errorf("the images are %s", all)
	}
}

func TestDescribeCollision(t *testing.T) {
	subnet := netip.MustParsePrefix("10.64.3.0/24")
	var many []netip.Prefix
	for _, s := range []string{"10.0.0.0/8", "10.64.0.0/16", "10.64.3.7/32", "10.64.3.8/32"} {
		many = append(many, netip.MustParsePrefix(s))
	}
	for want, overlapping := range map[string][]netip.Prefix{
		"": nil,
		"10.64.3.0/24, overlaps 10.0.0.0/8 of this host's":                             many[:1],
		"10.64.3.0/24, overlaps 10.0.0.0/8, 10.64.0.0/16, 10.64.3.7/32 of this host's": many,
	} {
		if got := describeCollision(subnet, overlapping); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: %q", overlapping, got)
		}
	}
}
