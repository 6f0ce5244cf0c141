package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Resources are the resources of a container that can be resized in place (KEP-1287). CPU is in
// milli-CPUs, memory in bytes, and 0 means not set.
type Resources struct {
	CPURequest    int64 `json:"cpuRequest,omitempty"`
	CPULimit      int64 `json:"cpuLimit,omitempty"`
	MemoryRequest int64 `json:"memoryRequest,omitempty"`
	MemoryLimit   int64 `json:"memoryLimit,omitempty"`
}

// ResourcesOf returns the resources of a container of the pod. If the container sets no limit, the
// pod's limit applies (KEP-2837).
func ResourcesOf(pod *corev1.Pod, c *corev1.Container) Resources {
	r := resourcesOf(c.Resources)
	if pod.Spec.Resources != nil {
		all := resourcesOf(*pod.Spec.Resources)
		if r.CPULimit == 0 {
			r.CPULimit = all.CPULimit
		}
		if r.MemoryLimit == 0 {
			r.MemoryLimit = all.MemoryLimit
		}
	}
	return r
}

func resourcesOf(r corev1.ResourceRequirements) Resources {
	return Resources{
		CPURequest: r.Requests.Cpu().MilliValue(), CPULimit: r.Limits.Cpu().MilliValue(),
		MemoryRequest: r.Requests.Memory().Value(), MemoryLimit: r.Limits.Memory().Value(),
	}
}

// Resize is an in-place resize that has begun and has not completed yet (KEP-1287). podrun records it
// before it writes the pod's new definition.
type Resize struct {
	// Group is true if the pod's cgroup already has the resources of the spec.
	Group bool `json:"group,omitempty"`
	// Containers maps each container that was running when the resize began, by its ID, to the
	// current resources of the container.
	Containers map[string]Resources `json:"containers,omitempty"`
	// Error explains why the last attempt failed; it is empty if the last attempt did not fail.
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since"`
}

// BeginResize returns the resize from one definition of a pod (was) to another one with the same
// containers (will). It returns nil if CPU and memory do not change. If podrun has not yet applied
// an earlier resize to a container, the result records the resources from before that resize.
func (o *Observed) BeginResize(was, will *corev1.Pod, now time.Time) *Resize {
	if !Resizes(was, will) {
		return nil
	}
	r := &Resize{Containers: map[string]Resources{}, Since: now}
	for _, s := range SpecContainers(was) {
		have := o.Container(s.Container.Name)
		if have == nil || have.State != Running || s.Ephemeral {
			continue
		}
		r.Containers[have.ID] = ResourcesOf(was, s.Container)
		if o.Resize != nil {
			if had, ok := o.Resize.Containers[have.ID]; ok {
				r.Containers[have.ID] = had
			}
		}
	}
	return r
}

// Resizes reports whether two definitions with the same containers differ in CPU or memory.
func Resizes(was, will *corev1.Pod) bool {
	pod := func(p *corev1.Pod) (r Resources) {
		if p.Spec.Resources != nil {
			r = resourcesOf(*p.Spec.Resources)
		}
		return r
	}
	if pod(was) != pod(will) {
		return true
	}
	after := SpecContainers(will)
	for i, s := range SpecContainers(was) {
		if i < len(after) && resourcesOf(s.Container.Resources) != resourcesOf(after[i].Container.Resources) {
			return true
		}
	}
	return false
}

// Resizing returns the current resources of a container, and whether they differ from those of the
// spec.
func (o *Observed) Resizing(pod *corev1.Pod, c *corev1.Container, have *Container) (had Resources, differs bool) {
	if o.Resize == nil || have == nil {
		return had, false
	}
	had, ok := o.Resize.Containers[have.ID]
	return had, ok && had != ResourcesOf(pod, c)
}

// resizeRestarts reports whether a container has a pending resize that requires a restart
// according to the container's resizePolicy.
func (o *Observed) resizeRestarts(pod *corev1.Pod, c *corev1.Container, have *Container) bool {
	had, differs := o.Resizing(pod, c, have)
	want := ResourcesOf(pod, c)
	cpu := had.CPURequest != want.CPURequest || had.CPULimit != want.CPULimit
	memory := had.MemoryRequest != want.MemoryRequest || had.MemoryLimit != want.MemoryLimit
	return differs && (cpu && RestartsToResize(c, corev1.ResourceCPU) || memory && RestartsToResize(c, corev1.ResourceMemory))
}

// RestartsToResize reports whether a change of the named resource requires a restart of the
// container.
func RestartsToResize(c *corev1.Container, name corev1.ResourceName) bool {
	return slices.Contains(c.ResizePolicy, corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: corev1.RestartContainer})
}

// ToResize lists the running containers that podrun must resize without a restart.
func (o *Observed) ToResize(pod *corev1.Pod) []Container {
	var out []Container
	for _, s := range SpecContainers(pod) {
		have := o.Container(s.Container.Name)
		if _, differs := o.Resizing(pod, s.Container, have); differs && have.State == Running && !o.resizeRestarts(pod, s.Container, have) {
			out = append(out, *have)
		}
	}
	return out
}

// Resized reports whether a resize is complete: the pod's cgroup, and every container that runs or
// will be started again, have the resources of the spec.
func (o *Observed) Resized(pod *corev1.Pod) bool {
	if o.Resize == nil || !o.Resize.Group {
		return false
	}
	for _, s := range SpecContainers(pod) {
		have := o.Container(s.Container.Name)
		if _, differs := o.Resizing(pod, s.Container, have); differs && !o.hasEnded(pod, s.Container, have) {
			return false
		}
	}
	return true
}

// resize adds to d the resize of the pod's cgroup and its running containers. Its position is after
// the kills of containers that must be restarted, and before the start of any container (SyncPod in
// pkg/kubelet/kuberuntime). The argument from is the index of the first action for an app container.
func (d *Decision) resize(pod *corev1.Pod, obs *Observed, from int) {
	if obs.Resize == nil || obs.Resize.Group && len(obs.ToResize(pod)) == 0 {
		return
	}
	var kills, others []Action
	for _, a := range d.Actions[from:] {
		if a.Verb == KillContainer {
			kills = append(kills, a)
		} else {
			others = append(others, a)
		}
	}
	resize := Action{Verb: ResizePod, Why: "its resources changed"}
	d.Actions = append(append(append(d.Actions[:from:from], kills...), resize), others...)
}
