package resource

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// AllocateDevices assigns devices to a pod's containers. The limits of the containers on extended
// resources determine the number of devices. The argument free lists the unassigned devices of each
// resource, which AllocateDevices assigns in order. It ignores resources that have no entry in
// free. As in the kubelet (pkg/kubelet/cm/devicemanager), a container may reuse the devices of
// earlier init containers, except those of sidecars. The error is the kubelet's.
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

// devicePool contains the devices of one resource during an allocation. The field used contains the
// devices of init containers that finish before the next container starts.
type devicePool struct{ free, used []string }

// take returns n devices. It takes the used ones first. The argument leaves must be true if the
// container finishes before the next one starts. In this case, take adds the container's devices to
// used.
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
