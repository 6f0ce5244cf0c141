package pod

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/run/observe"
)

// Status computes the pod's status from the last observation.
func (p *Pod) Status() corev1.PodStatus {
	return p.View(observe.Known{ID: p.Plan.ID, Pod: p.Plan.Pod}, observe.IsStopped(p.Plan.Layout, p.Plan.ID.UID)).Status
}

// View returns the pod with its status at the last observation. If over is true, podrun will not
// start any of its containers again.
func (p *Pod) View(k observe.Known, over bool) *corev1.Pod {
	started, ready, _ := p.Probed()
	// HandlerOf returns "" for a sandbox that this command created, because the command has not
	// read the sandbox from the runtime.
	n := observe.HostInfo{
		IPs:     p.Plan.NodeIPs,
		Runtime: p.Plan.Facts.Runtime,
		Handler: cmp.Or(p.Plan.Sandbox.Handler, observe.HandlerOf(p.Observed)),
		BackOff: p.RestartBackOff(),
	}
	n.Runtime.Name = p.Plan.Runtime
	return observe.ViewOf(context.Background(), k, p.Observed, n, over, started, ready)
}
