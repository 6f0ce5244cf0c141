package lifecycle

import (
	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// nextInit plans the init containers, and reports whether the app containers may start.
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
			continue // an app container was created, so all init containers had succeeded
		}
		if done := nextRegularInit(pod, c, w, d); !done {
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

// nextRegularInit plans one init container and reports whether it has succeeded.
func nextRegularInit(pod *corev1.Pod, c *corev1.Container, w World, d *Decision) bool {
	have := w.Observed.Container(c.Name)
	switch {
	case have == nil:
		d.start(c.Name, w.Observed, "next init container")
	case have.State == Running:
		d.Watch = append(d.Watch, have.ID)
	case have.State == Exited && have.ExitCode == 0:
		return true
	case w.Observed.hasEnded(pod, c, have):
		// The pod has failed. Sidecars that precede this init container may still run.
		*d = end(w.Observed)
	case have.State == Exited:
		d.restart(pod, c, have, w)
	default: // created but never started (k/k#126543), or unknown
		d.start(c.Name, w.Observed, "was "+string(have.State))
	}
	return false
}

// nextSidecar plans one sidecar and reports whether later containers may start.
func nextSidecar(pod *corev1.Pod, c *corev1.Container, w World, d *Decision) bool {
	have := w.Observed.Container(c.Name)
	switch {
	case have == nil:
		d.start(c.Name, w.Observed, "next sidecar")
		return false
	case have.State == Running:
		// podrun must detect the sidecar's exit even while later containers start: otherwise an init
		// container that requires the sidecar would wait forever.
		good := nextRunning(pod, c, have, w, d)
		if good {
			d.Watch = append(d.Watch, have.ID)
		}
		return good && (c.StartupProbe == nil || w.Started[have.ID])
	case have.State == Exited:
		d.restart(pod, c, have, w)
		return false
	}
	d.start(c.Name, w.Observed, "was "+string(have.State))
	return false
}
