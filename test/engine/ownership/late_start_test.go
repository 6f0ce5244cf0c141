package ownership

import (
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/patience"
)

// TestApplyOfLateStart covers a podrun process that was killed while it started a container. The
// runtime completes the start while the next apply waits for the container's image. The apply had
// already decided to create another container, and must make a new decision. Previously, two
// containers of this name ran.
func TestApplyOfLateStart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy   string
		behavior critest.Behavior
		want     runtimeapi.ContainerState
	}{
		{"Always", critest.Behavior{Forever: true}, runtimeapi.ContainerState_CONTAINER_RUNNING},
		{"Never", critest.Behavior{After: 100 * time.Millisecond}, runtimeapi.ContainerState_CONTAINER_EXITED},
	} {
		t.Run(tc.policy, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Runtime.Script("app", tc.behavior)
			late := r.KillLate("StartContainer", 1500*time.Millisecond, rig.Job{Manifest: rig.Web(tc.policy)})
			// The first call belongs to admission.
			defer r.Runtime.Fault("ImageStatus", critest.Fault{When: critest.Slow, Delay: 3 * time.Second, Skip: 1})()
			if result := r.Apply(rig.Web(tc.policy)); result.Err != nil {
				t.Errorf("the next apply: %v", result.Err)
			}
			<-late
			var all []critest.Container
			patience.Wait(t, patience.OnFake, "the container has started", func() bool {
				all = r.Runtime.Containers()
				return len(all) != 1 || all[0].State == tc.want
			})
			if len(all) != 1 || all[0].State != tc.want {
				t.Errorf("%d containers: %v", len(all), all)
			}
			r.MustDelete()
		})
	}
}
