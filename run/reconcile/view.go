package reconcile

import (
	"cmp"
	"context"

	"github.com/podrun/podrun/run/observe"
	corev1 "k8s.io/api/core/v1"
)

// Status computes the pod's status from the last observation.
func (w *Pod) Status() corev1.PodStatus {
	return w.View(observe.Known{ID: w.Plan.ID, Pod: w.Plan.Pod}, observe.IsStopped(w.Plan.Layout, w.Plan.ID.UID)).Status
}

// viewOf is the pod as last observed; over means that none of its containers is started
// again.
func (w *Pod) View(k observe.Known, over bool) *corev1.Pod {
	started, ready, _ := w.Probed()
	// A sandbox that this command made was not read from the runtime.
	n := observe.HostInfo{IPs: w.Plan.NodeIPs, Runtime: w.Plan.Facts.Runtime, Handler: cmp.Or(w.Plan.Sandbox.Handler, observe.HandlerOf(w.Observed)), BackOff: w.RestartBackOff()}
	n.Runtime.Name = w.Plan.Runtime
	return observe.ViewOf(context.Background(), k, w.Observed, n, over, started, ready)
}
