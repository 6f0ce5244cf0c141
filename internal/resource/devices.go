package resource

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// AllocateDevices gives a pod's containers devices for the extended resources of
// which there are any, by the limits. Free are the unassigned devices, by
// resource; they are given in their order. As in the kubelet
// (pkg/kubelet/cm/devicemanager) a container has what the init containers before
// it had, sidecars aside. The error is the kubelet's.
func AllocateDevices(pod *corev1.Pod, free map[corev1.ResourceName][]string) (map[string][]string, error) {
	pools := map[corev1.ResourceName]*devicePool{}
	for name, devices := range free {
		pools[name] = &devicePool{free: slices.Clone(devices)}
	}
	out := map[string][]string{}
	give := func(c *corev1.Container, leaves bool) error {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			limit := c.Resources.Limits[name]
			pool := pools[name]
			if pool == nil || limit.IsZero() {
				continue
			}
			devices, err := pool.take(int(limit.Value()), leaves)
			if err != nil {
				return fmt.Errorf("requested number of devices unavailable for %s. %w", name, err)
			}
			out[c.Name] = append(out[c.Name], devices...)
		}
		return nil
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		stays := podutil.IsRestartableInitContainer(c)
		if err := give(c, !stays); err != nil {
			return nil, err
		}
	}
	for i := range pod.Spec.Containers {
		if err := give(&pod.Spec.Containers[i], false); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// devicePool is the devices of one resource while a pod gets its own. Used are
// those of init containers that will be over.
type devicePool struct{ free, used []string }

// take gives n devices, first those that are used. A container that leaves them
// adds them to those.
func (p *devicePool) take(n int, leaves bool) ([]string, error) {
	all := slices.Concat(p.used, p.free)
	if n > len(all) {
		return nil, fmt.Errorf("Requested: %d, Available: %d", n-len(p.used), len(p.free))
	}
	given := all[:n:n]
	kept := func(d string) bool { return slices.Contains(given, d) }
	p.free = slices.DeleteFunc(slices.Clone(p.free), kept)
	switch {
	case !leaves:
		p.used = slices.DeleteFunc(slices.Clone(p.used), kept)
	case n > len(p.used):
		p.used = given
	}
	return given, nil
}
