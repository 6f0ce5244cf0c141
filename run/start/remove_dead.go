package start

import (
	"context"
	"fmt"
	"slices"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/stop"
)

// removeDead removes the pod's stopped sandboxes, except the current one and those that have the last run of
// a container. podrun keeps that run for its log and for the container's last state. Without removeDead,
// each replacement of a sandbox would leave the old sandbox behind, with its reserved name and its
// containers. The kubelet's garbage collection does the same (pkg/kubelet/kuberuntime/kuberuntime_gc.go,
// evictContainers and evictSandboxes).
func (st *Starter) removeDead(ctx context.Context) error {
	holds := lastRuns(st.pod.Observed.Containers)
	for i, sb := range slices.Clone(st.pod.Observed.Sandboxes) {
		if i == 0 || sb.Ready || !sb.Managed || holds[sb.ID] {
			continue
		}
		if err := stop.RemoveSandbox(ctx, st.pod.Node.Client, sb.ID); err != nil {
			return pod.RuntimeError(st.pod.Plan.ID, fmt.Errorf("remove the stopped sandbox %s: %w", observe.ShortID(sb.ID), err))
		}
		of := func(id string) bool { return id == sb.ID }
		st.pod.Observed.Sandboxes = slices.DeleteFunc(st.pod.Observed.Sandboxes, func(s lifecycle.Sandbox) bool { return of(s.ID) })
		for _, c := range st.pod.Observed.Containers {
			if of(c.SandboxID) {
				if err := st.logs.remove(c); err != nil {
					return fmt.Errorf("pod %s: remove the log of a previous container instance (%s): %w", st.pod.Plan.ID, observe.ShortID(c.ID), err)
				}
			}
		}
		st.pod.Observed.Containers = slices.DeleteFunc(st.pod.Observed.Containers, func(c lifecycle.Container) bool { return of(c.SandboxID) })
	}
	return nil
}

// lastRuns returns the sandboxes that have the newest run of a container, or the last run that has exited. The
// containers are sorted from the newest to the oldest.
func lastRuns(containers []lifecycle.Container) map[string]bool {
	sandboxes, newest, exited := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range containers {
		last := c.State == lifecycle.Exited && !exited[c.Name]
		if !newest[c.Name] || last {
			sandboxes[c.SandboxID] = true
		}
		newest[c.Name] = true
		exited[c.Name] = exited[c.Name] || last
	}
	return sandboxes
}
