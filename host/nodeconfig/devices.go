package nodeconfig

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"
)

// cdiID matches a device's full name in the Container Device Interface: vendor/class=name.
var cdiID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?=[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$`)
})

// ParseDevices parses entries of the form NAME=CDI-ID, such as nvidia.com/gpu=nvidia.com/gpu=0.
// Each entry adds a device to an extended resource. The devices of a resource keep their order.
func ParseDevices(given []string) (map[string][]string, error) {
	out := map[string][]string{}
	var seen []string
	for _, one := range given {
		name, id, _ := strings.Cut(one, "=")
		switch {
		case !extended(name):
			return nil, fmt.Errorf("%q: %q is not the name of an extended resource, such as example.com/gpu", one, name)
		case !cdiID().MatchString(id):
			return nil, fmt.Errorf("%q: %q is not a CDI device, such as example.com/gpu=0", one, id)
		case slices.Contains(seen, id):
			return nil, fmt.Errorf("%q: the device is specified twice", one)
		}
		seen, out[name] = append(seen, id), append(out[name], id)
	}
	return out, nil
}

// extended reports whether a name is that of an extended resource. The domain of such a name is
// not one of Kubernetes.
func extended(name string) bool {
	domain, _, ok := strings.Cut(name, "/")
	return ok && len(validation.IsQualifiedName(name)) == 0 && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") &&
		!strings.HasPrefix(name, "requests.")
}
