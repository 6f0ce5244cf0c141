package reconcile

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

// resize sets the resources of the pod's cgroup and its running containers to those of
// the spec, in the kubelet's order (doPodResizeAction in pkg/kubelet/kuberuntime):
// increases of the pod's cgroup, the containers, decreases of the pod's cgroup. Unlike
// the kubelet, it sets CPU and memory of a container with one call. It returns an error
// only for an interruption; a refusal by the runtime or the kernel is recorded in
// failures and in the pod's status, and the resize is retried.
func (w *starter) resize(ctx context.Context) error {
	err := w.tryResize(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if observe.IsUnavailable(err) {
		return w.pod.OfRuntime(err)
	}
	if err == nil {
		return nil
	}
	failed := *w.pod.Observed.Resize
	if failed.Error != err.Error() {
		failed.Error = event.Cut(err.Error())
		w.pod.Emit(event.Warning, event.ResizeError, "", pod.ResizeMessage("Pod resize error", w.pod.Spec(), failed.Error))
	}
	w.fail(&problem.Error{Kind: problem.Runtime, Object: "pod " + w.pod.Plan.ID.String(), Op: "resize", Err: err,
		Hint: "the pod keeps what it has until a later try; apply the earlier resources to take the change back"})
	return w.pod.KeepResize(&failed)
}

func (w *starter) tryResize(ctx context.Context) error {
	containers := w.pod.Observed.ToResize(w.pod.Spec())
	if err := w.checkUsage(ctx, containers); err != nil {
		return err
	}
	if sb := w.pod.Observed.Sandbox(); sb != nil {
		linux := w.pod.Plan.Sandbox.Config.GetLinux()
		if err := w.pod.Node.Client.UpdatePodSandboxResources(ctx, sb.ID, linux.GetOverhead(), linux.GetResources()); err != nil {
			return fmt.Errorf("update it in the runtime: %w", err)
		}
	}
	if err := w.pod.Node.UnderNodeLock(ctx, func() error { return cgroup.Grow(ctx, w.pod.Plan.Cgroup) }); err != nil {
		return err
	}
	slices.SortStableFunc(containers, func(a, b lifecycle.Container) int { return cmp.Compare(w.growth(a), w.growth(b)) })
	for _, c := range containers {
		if err := w.resizeContainer(ctx, c); err != nil {
			return fmt.Errorf("resize container %s: %w", c.Name, err)
		}
	}
	if err := w.pod.Node.UnderNodeLock(ctx, func() error { return cgroup.Apply(ctx, w.pod.Plan.Cgroup) }); err != nil {
		return err
	}
	done := *w.pod.Observed.Resize
	done.Group, done.Error = true, ""
	return w.pod.KeepResize(&done)
}

// growth is by how many bytes of memory a container grows, negative if it shrinks:
// those that shrink come first.
func (w *starter) growth(c lifecycle.Container) int64 {
	want := lifecycle.ResourcesOf(w.pod.Spec(), lifecycle.FindContainer(w.pod.Spec(), c.Name).Container)
	return want.MemoryLimit - w.pod.Observed.Resize.Containers[c.ID].MemoryLimit
}

func (w *starter) resizeContainer(ctx context.Context, c lifecycle.Container) error {
	if err := w.pod.Node.Client.UpdateContainerResources(ctx, c.ID, w.pod.Plan.Container(c.Name).Resources()); err != nil {
		return err
	}
	r := *w.pod.Observed.Resize
	r.Containers = map[string]lifecycle.Resources{}
	for id, had := range w.pod.Observed.Resize.Containers {
		if id != c.ID {
			r.Containers[id] = had
		}
	}
	if err := w.pod.KeepResize(&r); err != nil {
		return err
	}
	seen, err := observe.ReadContainer(ctx, w.pod.Node.Client, c.ID, c.SandboxID, true)
	if err == nil {
		w.pod.Observed.Put(seen)
	}
	return err
}

// checkUsage refuses to lower a memory limit below the current usage, as the kubelet does
// (validateMemoryResizeAction): the kernel would kill processes on cgroup v2, and refuse
// on v1, after a part of the resize was done.
func (w *starter) checkUsage(ctx context.Context, containers []lifecycle.Container) error {
	var errs []error
	for _, c := range containers {
		want := lifecycle.ResourcesOf(w.pod.Spec(), lifecycle.FindContainer(w.pod.Spec(), c.Name).Container).MemoryLimit
		if had := w.pod.Observed.Resize.Containers[c.ID].MemoryLimit; want == 0 || had > 0 && want >= had {
			continue
		}
		stats, err := w.pod.Node.Client.ContainerStats(ctx, c.ID)
		switch used := stats.GetMemory().GetUsageBytes(); {
		case err != nil:
			errs = append(errs, fmt.Errorf("read the memory usage of container %s: %w", c.Name, err))
		case used == nil:
			errs = append(errs, fmt.Errorf("the memory usage of container %s is not known", c.Name))
		case used.GetValue() >= uint64(want):
			errs = append(errs, fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", c.Name, want, used.GetValue()))
		}
	}
	if used, limit := cgroup.ReadShrink(w.pod.Plan.Cgroup); limit > 0 && used >= limit {
		errs = append(errs, fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)", limit, used))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("cannot decrease memory limits: %w", errors.Join(errs...))
}
