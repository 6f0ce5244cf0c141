package reconcile

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// beginResize records the current resources of the pod's containers before the definition
// that changes them is written.
func (w *Pod) BeginResize(was *corev1.Pod) error {
	r := w.Observed.BeginResize(was, w.Spec(), time.Now())
	if r == nil {
		return nil
	}
	if err := w.KeepResize(r); err != nil {
		return err
	}
	w.Emit(event.Normal, event.ResizeStarted, "", ResizeMessage("Pod resize started", w.Spec(), ""))
	return nil
}

// keepResize records the progress of a resize; nil means none.
func (w *Pod) KeepResize(r *lifecycle.Resize) error {
	if err := store.KeepState(w.Plan.Layout.Resize(w.Plan.ID.UID), r, r != nil); err != nil {
		return fmt.Errorf("pod %s: keep its resize: %w", w.Plan.ID, err)
	}
	w.Observed.Resize = r
	return nil
}

// endResize ends a resize when the pod and its containers have the resources of the pod's
// spec.
func (w *Pod) EndResize() error {
	if !w.Observed.Resized(w.Spec()) {
		return nil
	}
	if err := w.KeepResize(nil); err != nil {
		return err
	}
	w.Emit(event.Normal, event.ResizeCompleted, "", ResizeMessage("Pod resize completed", w.Spec(), ""))
	return nil
}

// takePending takes in whether the pod waits to be resized, where this command knows it.
func (w *Pod) TakePending() {
	p, old := w.ResizePending.Reason, w.Observed.Kept.ResizePending
	if !w.ResizePending.Known || old.Is(p) {
		return
	}
	if p != nil && (old == nil || old.Reason != p.Reason) {
		reason := event.ResizeDeferred
		if p.Reason == corev1.PodReasonInfeasible {
			reason = event.ResizeInfeasible
		}
		w.Emit(event.Warning, reason, "", "Pod resize "+p.Reason+": "+p.Message)
	}
	w.Observed.Kept.ResizePending = p
}

// resizeMessage is the message of a resize event: the requested resources and an error,
// as JSON in the kubelet's format (pkg/kubelet/events).
func ResizeMessage(what string, pod *corev1.Pod, failed string) string {
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
