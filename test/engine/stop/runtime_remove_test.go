package stop

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestPodsAreRemovedWithoutTheRuntime checks that podrun can remove a pod whose runtime no longer
// exists.
func TestPodsAreRemovedWithoutTheRuntime(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	if result := r.Apply(rig.Web("Always")); result.Err != nil {
		t.Fatal(result.Err)
	}
	r.Runtime.Close()
	runtime := ownruntime.New(r.Settings, ownruntime.Options{Command: "podrun test"})
	if err := embedded.MakeDirs(embedded.ReadLayout(r.Settings.RootDir)); err != nil {
		t.Fatal(err)
	}
	removed, err := runtime.RemoveStored(context.Background())
	if err = rig.ErrorOf(removed, err); err != nil || len(removed) != 1 || removed[0].Outcome != run.OutcomeDeleted {
		t.Fatalf("%+v, %v", removed, err)
	}
	if pods, err := store.StoredPods(r.Settings.Layout()); err != nil || len(pods) > 0 {
		t.Errorf("pods are left: %v, %v", pods, err)
	}
	for _, dir := range []string{r.Settings.PodLogsDir, r.Settings.ContainerLogsDir} {
		if left, err := os.ReadDir(dir); err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
	for _, dir := range rig.CgroupsOf(r.Settings.CgroupRoot) {
		t.Errorf("%s is left", dir)
	}
	// There is nothing left to remove.
	if removed, err := runtime.RemoveStored(context.Background()); err != nil || len(removed) > 0 {
		t.Errorf("%+v, %v", removed, err)
	}
}

func TestTheSandboxImageIsNotRemoved(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Runtime.AddImage(critest.Image{Name: embedded.PauseImage})
	report, err := imagestore.Remove(context.Background(), r.Engine(), imagestore.RemoveInput{Images: []string{embedded.PauseImage, "registry.example/db:2"}, Force: true})
	rig.WantErr(t, errors.Join(err, report.Err()), problem.Refused, "sandbox image")
	list, err := imagestore.List(context.Background(), r.Engine())
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
