package start

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
)

// Resizer changes the resources of a running pod.
type Resizer struct {
	pod *pod.Pod
	// fail records that the pod cannot be resized.
	fail func(error)
}

// Resize sets the resources of the pod's cgroup and its running containers to those of the spec. The
// order is the kubelet's (doPodResizeAction in pkg/kubelet/kuberuntime): first increases of the pod's
// cgroup, then the containers, then decreases of the pod's cgroup. Unlike the kubelet, it sets CPU and
// memory of a container with one call. It returns an error only if it is interrupted. If the runtime or
// the kernel refuses a change, Resize records the failure in the pod's status, and podrun retries the
// resize later.
func (r *Resizer) Resize(ctx context.Context) error {
	err := r.tryResize(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if observe.IsUnavailable(err) {
		return r.pod.OfRuntime(err)
	}
	if err == nil {
		return nil
	}
	failed := *r.pod.Observed.Resize
	if failed.Error != err.Error() {
		failed.Error = event.Cut(err.Error())
		r.pod.Emit(event.Warning, event.ResizeError, "", pod.ResizeMessage("Pod resize error", r.pod.Spec(), failed.Error))
	}
	r.fail(&problem.Error{Kind: problem.Runtime, Object: "pod " + r.pod.Plan.ID.String(), Op: "resize", Err: err,
		Hint: "the pod keeps its current resources until a retry succeeds; apply the previous resources to revert the change"})
	return r.pod.KeepResize(&failed)
}

func (r *Resizer) tryResize(ctx context.Context) error {
	containers := r.pod.Observed.ToResize(r.pod.Spec())
	if err := r.checkUsage(ctx, containers); err != nil {
		return err
	}
	if sb := r.pod.Observed.Sandbox(); sb != nil {
		linux := r.pod.Plan.Sandbox.Config.GetLinux()
		if err := r.pod.Node.Client.UpdatePodSandboxResources(ctx, sb.ID, linux.GetOverhead(), linux.GetResources()); err != nil {
			return fmt.Errorf("update the sandbox in the runtime: %w", err)
		}
	}
	if err := r.pod.Node.UnderNodeLock(ctx, func() error { return cgroup.Grow(ctx, r.pod.Plan.Cgroup) }); err != nil {
		return err
	}
	slices.SortStableFunc(containers, func(a, b lifecycle.Container) int { return cmp.Compare(r.growth(a), r.growth(b)) })
	for _, c := range containers {
		if err := r.resizeContainer(ctx, c); err != nil {
			return fmt.Errorf("resize container %s: %w", c.Name, err)
		}
	}
	if err := r.pod.Node.UnderNodeLock(ctx, func() error { return cgroup.Apply(ctx, r.pod.Plan.Cgroup) }); err != nil {
		return err
	}
	done := *r.pod.Observed.Resize
	done.Group = true
	done.Error = ""
	return r.pod.KeepResize(&done)
}

// growth returns the number of bytes by which the memory limit of a container increases. It is negative
// if the limit decreases. Resize begins with the containers whose limits decrease.
func (r *Resizer) growth(c lifecycle.Container) int64 {
	want := lifecycle.ResourcesOf(r.pod.Spec(), lifecycle.FindContainer(r.pod.Spec(), c.Name).Container)
	return want.MemoryLimit - r.pod.Observed.Resize.Containers[c.ID].MemoryLimit
}

func (r *Resizer) resizeContainer(ctx context.Context, c lifecycle.Container) error {
	if err := r.pod.Node.Client.UpdateContainerResources(ctx, c.ID, r.pod.Plan.Container(c.Name).Resources()); err != nil {
		return err
	}
	left := *r.pod.Observed.Resize
	left.Containers = map[string]lifecycle.Resources{}
	for id, had := range r.pod.Observed.Resize.Containers {
		if id != c.ID {
			left.Containers[id] = had
		}
	}
	if err := r.pod.KeepResize(&left); err != nil {
		return err
	}
	seen, err := observe.ReadContainer(ctx, r.pod.Node.Client, c.ID, c.SandboxID, true)
	if err == nil {
		r.pod.Observed.Put(seen)
	}
	return err
}

// checkUsage refuses to lower a memory limit below the current usage, as the kubelet does
// (validateMemoryResizeAction). With a lower limit, the kernel would kill processes (cgroup v2), or
// would refuse the limit after podrun has performed parts of the resize (v1).
func (r *Resizer) checkUsage(ctx context.Context, containers []lifecycle.Container) error {
	var errs []error
	for _, c := range containers {
		want := lifecycle.ResourcesOf(r.pod.Spec(), lifecycle.FindContainer(r.pod.Spec(), c.Name).Container).MemoryLimit
		if had := r.pod.Observed.Resize.Containers[c.ID].MemoryLimit; want == 0 || had > 0 && want >= had {
			continue
		}
		stats, err := r.pod.Node.Client.ContainerStats(ctx, c.ID)
		switch used := stats.GetMemory().GetUsageBytes(); {
		case err != nil:
			errs = append(errs, fmt.Errorf("read the memory usage of container %s: %w", c.Name, err))
		case used == nil:
			errs = append(errs, fmt.Errorf("the memory usage of container %s is unknown", c.Name))
		case used.GetValue() >= uint64(want):
			errs = append(errs, fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", c.Name, want, used.GetValue()))
		}
	}
	if used, limit := cgroup.ReadMemoryLimitDecrease(r.pod.Plan.Cgroup); limit > 0 && used >= limit {
		errs = append(errs, fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)", limit, used))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("cannot decrease memory limits: %w", errors.Join(errs...))
}
