package observe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// TestHubLateRecord covers a container whose process exits long after the last other event. The
// runtime records the exit only after settleTime, as may happen on a busy host.
func TestHubLateRecord(t *testing.T) {
	for name, watched := range map[string]bool{"its process is watched": true, "its process is unknown": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := critest.ForTest(t, critest.AnyImage(), critest.NoEvents())
				rt.Script("app", critest.Behavior{Forever: true})
				client := rt.Client()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				hub := NewHub(client)
				go hub.Run(ctx)
				// By now the hub's interval is slowestRelist.
				time.Sleep(5 * time.Minute)
				sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "u"}}
				sb, err := client.RunPodSandbox(ctx, sandbox, "")
				if err != nil {
					t.Fatal(err)
				}
				id, err := client.CreateContainer(ctx, sb, &runtimeapi.ContainerConfig{
					Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "app"},
					Labels: map[string]string{identity.LabelPodUID: "u", identity.LabelContainerName: "app"}}, sandbox)
				if err == nil {
					err = client.StartContainer(ctx, id)
				}
				if err != nil {
					t.Fatal(err)
				}
				obs := &lifecycle.Observed{Sandboxes: []lifecycle.Sandbox{{ID: sb, Ready: true}},
					Containers: []lifecycle.Container{{ID: id, SandboxID: sb, Name: "app", State: lifecycle.Running}}}
				w := hub.Watch("u")
				defer w.Close()
				if watched {
					w.pids[id] = pidWatch{exited: make(chan struct{}), stop: func() {}}
					w.noteExit(id)
				}
				const after = settleTime + 41*time.Millisecond
				recorded := time.Now().Add(after)
				go func() {
					time.Sleep(after)
					if err := rt.Exit("app", 1); err != nil {
						t.Error(err)
					}
				}()
				for stale := false; !stale && obs.Containers[0].State == lifecycle.Running; {
					if stale, err = w.Await(ctx, client, obs, lifecycle.Decision{Watch: []string{id}}, nil); err != nil {
						t.Fatal(err)
					}
				}
				if late := time.Since(recorded); late > fastestRelist {
					t.Errorf("the end was noticed %s after the runtime recorded it, want at most %s", late, fastestRelist)
				}
			})
		})
	}
}
