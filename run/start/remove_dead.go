package start

import (
	"context"
	"fmt"
	"slices"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
)

// removeDead removes the pod's stopped sandboxes, except the newest one and those with the last run of
// a container: each replacement of a sandbox leaves the old one behind, with its reserved name and its
// containers. The kubelet's garbage collection does the same
// (pkg/kubelet/kuberuntime/kuberuntime_gc.go, evictSandboxes).
func (st *Starter) removeDead(ctx context.Context) error {
	holds := map[string]bool{}
	for _, c := range st.pod.Observed.Containers {
		if newest := st.pod.Observed.Newest(c.Name); newest != nil {
			holds[newest.SandboxID] = true
		}
	}
	for i, sb := range slices.Clone(st.pod.Observed.Sandboxes) {
		if i < 2 || sb.Ready || !sb.Managed || holds[sb.ID] {
			continue
		}
		if err := st.pod.Node.Client.RemovePodSandbox(ctx, sb.ID); err != nil {
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
