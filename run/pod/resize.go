package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// BeginResize records the current resources of the pod's containers. It must be called before podrun
// writes the definition that changes them.
func (p *Pod) BeginResize(was *corev1.Pod) error {
	r := p.Observed.BeginResize(was, p.Spec(), time.Now())
	if r == nil {
		return nil
	}
	if err := p.KeepResize(r); err != nil {
		return err
	}
	p.Emit(event.Normal, event.ResizeStarted, "", ResizeMessage("Pod resize started", p.Spec(), ""))
	return nil
}

// KeepResize records the progress of a resize; nil means that no resize is in progress. The
// caller holds the pod's lock.
func (p *Pod) KeepResize(r *lifecycle.Resize) error {
	err := store.UpdatePodState(p.Plan.Layout, p.Plan.ID.UID, func(s *store.PodState) { s.Resize = r })
	if err != nil && (r != nil || !errors.Is(err, store.ErrNoPodDir)) {
		return fmt.Errorf("pod %s: save its resize: %w", p.Plan.ID, err)
	}
	p.Observed.Resize = r
	return nil
}

// EndResize ends a resize once the pod and its containers have the resources of the pod's spec.
func (p *Pod) EndResize() error {
	if !p.Observed.Resized(p.Spec()) {
		return nil
	}
	if err := p.KeepResize(nil); err != nil {
		return err
	}
	p.Emit(event.Normal, event.ResizeCompleted, "", ResizeMessage("Pod resize completed", p.Spec(), ""))
	return nil
}

// UpdateResizePending updates the pod's pending resize, if this command knows whether there is one.
func (p *Pod) UpdateResizePending() {
	now, old := p.ResizePending.Reason, p.Observed.Kept.ResizePending
	if !p.ResizePending.Known || old.Is(now) {
		return
	}
	if now != nil && (old == nil || old.Reason != now.Reason) {
		reason := event.ResizeDeferred
		if now.Reason == corev1.PodReasonInfeasible {
			reason = event.ResizeInfeasible
		}
		p.Emit(event.Warning, reason, "", "Pod resize "+now.Reason+": "+now.Message)
	}
	p.Observed.Kept.ResizePending = now
}

// ResizeMessage returns the message of a resize event: JSON in the kubelet's format, with the requested
// resources and the error (pkg/kubelet/events).
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
	summary.Generation = pod.Generation
	summary.Error = failed
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
