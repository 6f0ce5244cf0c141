package cri_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
)

// TestStopDoesNotWaitForTERM checks that podrun does not wait for a container that ignores TERM.
// CRI-O would wait until the deadline of the call that stops or removes the container's sandbox.
func TestStopDoesNotWaitForTERM(t *testing.T) {
	for _, p := range []critest.Profile{critest.Containerd(), critest.CRIO()} {
		for name, call := range map[string]func(ctx context.Context, c *cri.Client, sandbox, container string) error{
			"StopPodSandbox": func(ctx context.Context, c *cri.Client, sandbox, _ string) error {
				return c.StopPodSandbox(ctx, sandbox)
			},
			"RemoveContainer": func(ctx context.Context, c *cri.Client, _, container string) error {
				return c.RemoveContainer(ctx, container)
			},
		} {
			t.Run(p.Name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rt := critest.ForTest(t, critest.As(p))
					rt.AddImage(critest.Image{Name: "registry.example/app:1"})
					rt.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
					c := rt.Client()
					config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod", Uid: "u"}}
					sandbox, err := c.RunPodSandbox(t.Context(), config, "")
					if err != nil {
						t.Fatal(err)
					}
					container, err := c.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
						Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "registry.example/app:1", UserSpecifiedImage: "registry.example/app:1"},
					}, config)
					if err != nil {
						t.Fatal(err)
					}
					if err := c.StartContainer(t.Context(), container); err != nil {
						t.Fatal(err)
					}
					begun := time.Now()
					if err := call(t.Context(), c, sandbox, container); err != nil {
						t.Error(err)
					}
					if took := time.Since(begun); took > time.Second {
						t.Errorf("the call took %v", took)
					}
				})
			})
		}
	}
}
