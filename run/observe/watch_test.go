package observe

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// TestWatchOfUnknownPID waits for a container whose pid the runtime does not report. podrun
// must notice the exit within slowestPoll, and must rarely make verbose requests.
func TestWatchOfUnknownPID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := critest.ForTest(t, critest.AnyImage(), critest.NoEvents())
		rt.Script("app", critest.Behavior{Forever: true})
		client := rt.Client()
		sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "u"}}
		sb, err := client.RunPodSandbox(t.Context(), sandbox, "")
		if err != nil {
			t.Fatal(err)
		}
		id, err := client.CreateContainer(t.Context(), sb, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "app"},
			Labels: map[string]string{identity.LabelPodUID: "u", identity.LabelContainerName: "app"}}, sandbox)
		if err == nil {
			err = client.StartContainer(t.Context(), id)
		}
		if err != nil {
			t.Fatal(err)
		}
		var verbose, plain atomic.Int32
		count := func(r proto.Message) bool {
			if r.(*runtimeapi.ContainerStatusRequest).GetVerbose() {
				verbose.Add(1)
			} else {
				plain.Add(1)
			}
			return false
		}
		defer rt.Fault("ContainerStatus", critest.Fault{Match: count})()
		const runs = time.Minute + time.Millisecond
		exit := time.Now().Add(runs)
		go func() {
			time.Sleep(runs)
			if err := rt.Exit("app", 3); err != nil {
				t.Error(err)
			}
		}()
		obs := &lifecycle.Observed{Containers: []lifecycle.Container{{ID: id, SandboxID: sb, State: lifecycle.Running}}}
		_, err = AwaitChange(t.Context(), client, obs, lifecycle.Decision{Watch: []string{id}}, nil, time.Hour)
		c := obs.Containers[0]
		if err != nil || c.State != lifecycle.Exited || c.ExitCode != 3 {
			t.Errorf("%+v, %v", c, err)
		}
		if late := time.Since(exit); late > slowestPoll {
			t.Errorf("noticed %v after the exit", late)
		}
		if n := verbose.Load(); n < 2 || n > 1+int32(runs/safeguardPoll) {
			t.Errorf("%d verbose requests in %v, in addition to %d plain ones", n, runs, plain.Load())
		}
	})
}
