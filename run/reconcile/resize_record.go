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
