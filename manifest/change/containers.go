package change

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// AllContainers is the pattern that matches every container.
const AllContainers = "*"

// inContainers calls change for each container and init container whose name matches the
// pattern, in a copy of the pod, and returns the copy. If no container matches, it returns an
// error.
func inContainers(pod *corev1.Pod, pattern string, change func(*corev1.Container) error) (*corev1.Pod, error) {
	out, found := pod.DeepCopy(), false
	for _, list := range [][]corev1.Container{out.Spec.Containers, out.Spec.InitContainers} {
		for i := range list {
			matches, err := path.Match(pattern, list[i].Name)
			if err != nil {
				return nil, fmt.Errorf("%q is not a pattern for names of containers", pattern)
			}
			if !matches {
				continue
			}
			found = true
			if err := change(&list[i]); err != nil {
				return nil, err
			}
		}
	}
	if !found {
		var names []string
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			names = append(names, c.Name)
		}
		return nil, fmt.Errorf("unable to find container named %q (the pod has %s)", pattern, strings.Join(names, ", "))
	}
	return out, nil
}

// Images sets the images of the containers with these names. The name AllContainers means all of
// them.
func Images(pod *corev1.Pod, images []Pair) (*corev1.Pod, error) {
	for _, p := range images {
		next, err := inContainers(pod, p.Key, func(c *corev1.Container) error {
			c.Image = p.Value
			return nil
		})
		if err != nil {
			return nil, err
		}
		pod = next
	}
	return pod, nil
}
