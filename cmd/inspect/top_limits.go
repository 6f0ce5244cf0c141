package inspect

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// usageLimits maps pods to their limits, and containers of pods to theirs.
type usageLimits map[usageKey]corev1.ResourceList

// usageKey identifies a pod by namespace and name, or one of its containers.
type usageKey struct{ namespace, pod, container string }

// limitsOf returns the limits of the selected pods.
func limitsOf(ctx context.Context, node *run.Node, sel lookup.Selector) (usageLimits, error) {
	known, err := lookup.Find(ctx, node, sel)
	if err != nil {
		return nil, err
	}
	limits := usageLimits{}
	for _, k := range known {
		if k.Pod != nil {
			limits.add(k.ID, &k.Pod.Spec)
		}
	}
	return limits, nil
}

// add adds the limits of a pod. The limit of a pod is that in its resources, or else the sum of the limits of its
// containers if all of them, except init containers that end, have one.
func (l usageLimits) add(id identity.Pod, spec *corev1.PodSpec) {
	pod := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		sum, all := resource.Quantity{}, true
		each := func(c *corev1.Container) {
			limit, ok := c.Resources.Limits[name]
			all = all && ok
			sum.Add(limit)
		}
		for i := range spec.InitContainers {
			if c := &spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
				each(c)
			}
		}
		for i := range spec.Containers {
			each(&spec.Containers[i])
		}
		if all {
			pod[name] = sum
		}
		if spec.Resources != nil {
			if limit, ok := spec.Resources.Limits[name]; ok {
				pod[name] = limit
			}
		}
	}
	l[usageKey{id.Namespace, id.Name, ""}] = pod
	for _, c := range append(append([]corev1.Container{}, spec.InitContainers...), spec.Containers...) {
		l[usageKey{id.Namespace, id.Name, c.Name}] = c.Resources.Limits
	}
}

// cpuLimitCells returns the cells for the limit of CPU, and for the usage as a percentage of the limit.
func (l usageLimits) cpuLimitCells(key usageKey, nanoCores *uint64) (limit, percent string) {
	quantity, ok := l[key][corev1.ResourceCPU]
	if !ok || quantity.IsZero() {
		return "<none>", "<none>"
	}
	milli := uint64(quantity.MilliValue())
	return fmt.Sprintf("%dm", milli), percentCell(nanoCores, milli*1_000_000)
}

// memoryLimitCells returns the cells for the limit of memory, and for the usage as a percentage of the limit.
func (l usageLimits) memoryLimitCells(key usageKey, bytes *uint64) (limit, percent string) {
	quantity, ok := l[key][corev1.ResourceMemory]
	if !ok || quantity.IsZero() {
		return "<none>", "<none>"
	}
	value := uint64(quantity.Value())
	return view.MemoryCell(&value), percentCell(bytes, value)
}

// percentCell formats usage as a percentage of a limit that is not 0.
func percentCell(used *uint64, limit uint64) string {
	if used == nil {
		return "<unknown>"
	}
	return fmt.Sprintf("%.0f%%", float64(*used)/float64(limit)*100)
}
