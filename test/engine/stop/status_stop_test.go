package stop

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestStopDuringInit covers a pod that was stopped while its init containers ran. It must be
// Failed, because its other containers will not be started, and must remain Failed after an
// interrupted start (issue 30).
func TestStopDuringInit(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]critest.Behavior{"TERM": {Forever: true}, "ends well on TERM": {Forever: true, CleanTERM: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Runtime.Script("setup", setup)
				applied := make(chan run.Result)
				go func() { applied <- r.Apply(rig.WebWithInit("Always")) }()
				time.Sleep(time.Second)
				if phase := r.OnlyPod().Status.Phase; phase != corev1.PodPending {
					t.Errorf("before: phase %s", phase)
				}
				stopped := run.StopPods(t.Context(), r.Engine(), r.Known(), run.DeleteOptions{})[0]
				if stopped.Err != nil || stopped.Status.Phase != corev1.PodFailed {
					t.Errorf("stop: %v, phase %s", stopped.Err, stopped.Status.Phase)
				}
				if result := <-applied; result.Err == nil {
					t.Error("the apply of the stopped pod has succeeded")
				}
				if phase := r.OnlyPod().Status.Phase; phase != corev1.PodFailed {
					t.Errorf("after: phase %s", phase)
				}
				r.MustDelete()
			})
		})
	}
}
