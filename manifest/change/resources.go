package change

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/resource"
	"github.com/podrun/podrun/manifest"
)

// Resources are changes of the requests and limits of containers.
type Resources struct {
	Limits, Requests corev1.ResourceList
	Containers       string // a pattern for the names of the containers
}

// ParseResources parses a list such as cpu=200m,memory=512Mi. The argument flag is the name of
// the flag in errors.
func ParseResources(flag, text string) (corev1.ResourceList, error) {
	if text == "" {
		return nil, nil
	}
	out := corev1.ResourceList{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok || name == "" || strings.Contains(value, "=") {
			return nil, fmt.Errorf("--%s=%s: %q is not of the form RESOURCE=QUANTITY", flag, text, part)
		}
		q, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, fmt.Errorf("--%s=%s: %w (%s)", flag, text, err, manifest.QuantityHint(value))
		}
		out[corev1.ResourceName(name)] = q
	}
	return out, nil
}

// Change returns the changed pod. Resources that are not in the lists keep their values.
func (r Resources) Change(pod *corev1.Pod) (*corev1.Pod, error) {
	return inContainers(pod, r.Containers, func(c *corev1.Container) error {
		c.Resources.Limits = merged(c.Resources.Limits, r.Limits)
		c.Resources.Requests = merged(c.Resources.Requests, r.Requests)
		return nil
	})
}

func merged(have, set corev1.ResourceList) corev1.ResourceList {
	if have == nil && len(set) > 0 {
		have = corev1.ResourceList{}
	}
	maps.Copy(have, set)
	return have
}
