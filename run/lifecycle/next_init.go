package lifecycle

import (
	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// nextInit adds to d the actions for the init containers, and reports whether the app containers
// may start.
func nextInit(pod *corev1.Pod, w World, d *Decision) bool {
	initialized := AnyAppContainer(pod, w.Observed)
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if podutil.IsRestartableInitContainer(c) {
			if !nextSidecar(pod, c, w, d) && !initialized {
				return false
			}
			continue
		}
		if initialized {
			// An app container was created, so all init containers had succeeded.
			continue
		}
		var next *corev1.Container
		if i+1 < len(pod.Spec.InitContainers) {
			next = &pod.Spec.InitContainers[i+1]
		}
		if done := nextRegularInit(pod, c, next, w, d); !done {
			return false
		}
	}
	return true
}

// AnyAppContainer reports whether an app container was created in the current sandbox. All init
// containers had succeeded by then, even if the runtime has pruned their records (k/k#86531).
func AnyAppContainer(pod *corev1.Pod, obs *Observed) bool {
	for i := range pod.Spec.Containers {
		if obs.Container(pod.Spec.Containers[i].Name) != nil {
			return true
		}
	}
	return false
}

// nextRegularInit adds to d the actions for one init container, and reports whether it has
// succeeded. The argument next is the following init container, or nil if there is none; podrun
// creates it while c runs.
func nextRegularInit(pod *corev1.Pod, c, next *corev1.Container, w World, d *Decision) bool {
	have := w.Observed.Container(c.Name)
	d.ahead(have, next, w)
	switch {
	case have == nil:
		d.start(pod, c.Name, w, "next init container")
	case have.State == Running:
		d.Watch = append(d.Watch, have.ID)
	case have.State == Exited && have.ExitCode == 0:
		return true
	case w.Observed.hasEnded(pod, c, have):
		// The pod has failed. Sidecars that precede this init container may still run.
		*d = end(w.Observed)
	case have.State == Exited:
		d.restart(pod, c, have, w)
	// The container was created but never started (k/k#126543), or its state is unknown.
	default:
		d.start(pod, c.Name, w, "was "+string(have.State))
	}
	return false
}

// ahead adds to d the creation of the next init container while the current one runs for the first
// time. If the current container fails, ahead adds the removal of the next one, which must not
// exist when the current one is restarted.
func (d *Decision) ahead(current *Container, next *corev1.Container, w World) {
	if current == nil || next == nil {
		return
	}
	created := w.Observed.Container(next.Name)
	switch {
	case current.State == Running && current.Restarts == 0 && w.CreateAhead[next.Name] && w.Observed.Newest(next.Name) == nil:
		d.Actions = append(d.Actions, Action{Verb: CreateContainer, Container: next.Name, Why: "init container " + current.Name + " is running"})
	case current.State == Exited && current.ExitCode != 0 && created != nil && created.State == Created:
		d.Actions = append(d.Actions, Action{
			Verb:      RemoveContainer,
			Container: next.Name,
			ID:        created.ID,
			Attempt:   created.Restarts,
			Why:       "init container " + current.Name + " has failed",
		})
	}
}

// nextSidecar adds to d the actions for one sidecar, and reports whether later containers may start.
func nextSidecar(pod *corev1.Pod, c *corev1.Container, w World, d *Decision) bool {
	have := w.Observed.Container(c.Name)
	switch {
	case have == nil:
		d.start(pod, c.Name, w, "next sidecar")
		return false
	case have.State == Running:
		// podrun must detect the exit of the sidecar even while it starts later containers.
		// Otherwise an init container that requires the sidecar would wait forever.
		good := nextRunning(pod, c, have, w, d)
		if good {
			d.Watch = append(d.Watch, have.ID)
		}
		return good && (c.StartupProbe == nil || w.Started[have.ID])
	case have.State == Exited:
		d.restart(pod, c, have, w)
		return false
	}
	d.start(pod, c.Name, w, "was "+string(have.State))
	return false
}
