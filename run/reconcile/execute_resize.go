package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// beginResize records the current resources of the pod's containers before the definition
// that changes them is written.
func (w *state) beginResize(was *corev1.Pod) error {
	r := w.obs.BeginResize(was, w.pod(), time.Now())
	if r == nil {
		return nil
	}
	if err := w.keepResize(r); err != nil {
		return err
	}
	w.emit(event.Normal, event.ResizeStarted, "", resizeMessage("Pod resize started", w.pod(), ""))
	return nil
}

// keepResize records the progress of a resize; nil means none.
func (w *state) keepResize(r *lifecycle.Resize) error {
	if err := store.KeepState(w.plan.Layout.Resize(w.plan.ID.UID), r, r != nil); err != nil {
		return fmt.Errorf("pod %s: keep its resize: %w", w.plan.ID, err)
	}
	w.obs.Resize = r
	return nil
}

// endResize ends a resize when the pod and its containers have the resources of the pod's
// spec.
func (w *state) endResize() error {
	if !w.obs.Resized(w.pod()) {
		return nil
	}
	if err := w.keepResize(nil); err != nil {
		return err
	}
	w.emit(event.Normal, event.ResizeCompleted, "", resizeMessage("Pod resize completed", w.pod(), ""))
	return nil
}

// takePending takes in whether the pod waits to be resized, where this command knows it.
func (w *state) takePending() {
	p, old := w.resizePending.reason, w.obs.Kept.ResizePending
	if !w.resizePending.known || old.Is(p) {
		return
	}
	if p != nil && (old == nil || old.Reason != p.Reason) {
		reason := event.ResizeDeferred
		if p.Reason == corev1.PodReasonInfeasible {
			reason = event.ResizeInfeasible
		}
		w.emit(event.Warning, reason, "", "Pod resize "+p.Reason+": "+p.Message)
	}
	w.obs.Kept.ResizePending = p
}

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
		return w.pod.ofRuntime(err)
	}
	if err == nil {
		return nil
	}
	failed := *w.pod.obs.Resize
	if failed.Error != err.Error() {
		failed.Error = event.Cut(err.Error())
		w.pod.emit(event.Warning, event.ResizeError, "", resizeMessage("Pod resize error", w.pod.pod(), failed.Error))
	}
	w.fail(&problem.Error{Kind: problem.Runtime, Object: "pod " + w.pod.plan.ID.String(), Op: "resize", Err: err,
		Hint: "the pod keeps what it has until a later try; apply the earlier resources to take the change back"})
	return w.pod.keepResize(&failed)
}

func (w *starter) tryResize(ctx context.Context) error {
	containers := w.pod.obs.ToResize(w.pod.pod())
	if err := w.checkUsage(ctx, containers); err != nil {
		return err
	}
	if sb := w.pod.obs.Sandbox(); sb != nil {
		linux := w.pod.plan.Sandbox.Config.GetLinux()
		if err := w.pod.Node.Client.UpdatePodSandboxResources(ctx, sb.ID, linux.GetOverhead(), linux.GetResources()); err != nil {
			return fmt.Errorf("update it in the runtime: %w", err)
		}
	}
	if err := w.pod.Node.UnderNodeLock(ctx, func() error { return cgroup.Grow(ctx, w.pod.plan.Cgroup) }); err != nil {
		return err
	}
	slices.SortStableFunc(containers, func(a, b lifecycle.Container) int { return cmp.Compare(w.growth(a), w.growth(b)) })
	for _, c := range containers {
		if err := w.resizeContainer(ctx, c); err != nil {
			return fmt.Errorf("resize container %s: %w", c.Name, err)
		}
	}
	if err := w.pod.Node.UnderNodeLock(ctx, func() error { return cgroup.Apply(ctx, w.pod.plan.Cgroup) }); err != nil {
		return err
	}
	done := *w.pod.obs.Resize
	done.Group, done.Error = true, ""
	return w.pod.keepResize(&done)
}

// growth is by how many bytes of memory a container grows, negative if it shrinks:
// those that shrink come first.
func (w *starter) growth(c lifecycle.Container) int64 {
	want := lifecycle.ResourcesOf(w.pod.pod(), lifecycle.FindContainer(w.pod.pod(), c.Name).Container)
	return want.MemoryLimit - w.pod.obs.Resize.Containers[c.ID].MemoryLimit
}

func (w *starter) resizeContainer(ctx context.Context, c lifecycle.Container) error {
	if err := w.pod.Node.Client.UpdateContainerResources(ctx, c.ID, w.pod.plan.Container(c.Name).Resources()); err != nil {
		return err
	}
	r := *w.pod.obs.Resize
	r.Containers = map[string]lifecycle.Resources{}
	for id, had := range w.pod.obs.Resize.Containers {
		if id != c.ID {
			r.Containers[id] = had
		}
	}
	if err := w.pod.keepResize(&r); err != nil {
		return err
	}
	seen, err := observe.ReadContainer(ctx, w.pod.Node.Client, c.ID, c.SandboxID, true)
	if err == nil {
		w.pod.obs.Put(seen)
	}
	return err
}

// checkUsage refuses to lower a memory limit below the current usage, as the kubelet does
// (validateMemoryResizeAction): the kernel would kill processes on cgroup v2, and refuse
// on v1, after a part of the resize was done.
func (w *starter) checkUsage(ctx context.Context, containers []lifecycle.Container) error {
	var errs []error
	for _, c := range containers {
		want := lifecycle.ResourcesOf(w.pod.pod(), lifecycle.FindContainer(w.pod.pod(), c.Name).Container).MemoryLimit
		if had := w.pod.obs.Resize.Containers[c.ID].MemoryLimit; want == 0 || had > 0 && want >= had {
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
	if used, limit := cgroup.ReadShrink(w.pod.plan.Cgroup); limit > 0 && used >= limit {
		errs = append(errs, fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)", limit, used))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("cannot decrease memory limits: %w", errors.Join(errs...))
}

// resizeMessage is the message of a resize event: the requested resources and an error,
// as JSON in the kubelet's format (pkg/kubelet/events).
func resizeMessage(what string, pod *corev1.Pod, failed string) string {
	type resources struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	var summary struct {
		InitContainers []resources `json:"initContainers,omitempty"`
		Containers     []resources `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
		Error          string      `json:"error,omitempty"`
	}
	summary.Generation, summary.Error = pod.Generation, failed
	for _, s := range lifecycle.SpecContainers(pod) {
		if s.Ephemeral {
			continue
		}
		one := resources{s.Container.Name, s.Container.Resources}
		if s.Init {
			summary.InitContainers = append(summary.InitContainers, one)
		} else {
			summary.Containers = append(summary.Containers, one)
		}
	}
	data, err := json.Marshal(summary)
	if err != nil {
		return what
	}
	return what + ": " + string(data)
}
