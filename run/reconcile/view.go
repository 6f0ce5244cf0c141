package reconcile

import (
	"cmp"
	"context"

	"github.com/podrun/podrun/run/observe"
	corev1 "k8s.io/api/core/v1"
)

// Status computes the pod's status from the last observation.
func (w *state) Status() corev1.PodStatus {
	return w.viewOf(observe.Known{ID: w.plan.ID, Pod: w.plan.Pod}, observe.IsStopped(w.plan.Layout, w.plan.ID.UID)).Status
}

// viewOf is the pod as last observed; over means that none of its containers is started
// again.
func (w *state) viewOf(k observe.Known, over bool) *corev1.Pod {
	started, ready, _ := w.probed()
	// A sandbox that this command made was not read from the runtime.
	n := observe.HostInfo{IPs: w.plan.NodeIPs, Runtime: w.plan.Facts.Runtime, Handler: cmp.Or(w.plan.Sandbox.Handler, observe.HandlerOf(w.obs)), BackOff: w.restartBackOff()}
	n.Runtime.Name = w.plan.Runtime
	return observe.ViewOf(context.Background(), k, w.obs, n, over, started, ready)
}
