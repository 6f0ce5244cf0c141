package complete

import (
	"context"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// completedTypes are the types that the commands get, describe and delete offer in addition to the names of pods,
// after the first letter of a type.
var completedTypes = []string{"pods", "deployments", "statefulsets", "daemonsets", "replicasets", "jobs", "cronjobs", "services", "configmaps", "secrets"}

// objectWords returns the names of the Services, ConfigMaps or Secrets of the namespace; known is false for words that
// name another type.
func objectWords(a *cli.App, node *run.Node, word string) (names []string, known bool) {
	t := apikind.Of(word)
	if t == nil {
		return nil, false
	}
	namespace := a.NamespaceOrDefault("default")
	switch t.Kind {
	case apikind.Service:
		for _, s := range lookup.StoredServices(node, namespace) {
			names = append(names, s.Name)
		}
		return names, true
	case "ConfigMap", "Secret":
		for _, p := range cli.StoredPods(node, namespace) {
			c, err := lookup.StoredCheckpoint(node, p)
			if err != nil || c == nil {
				continue
			}
			if t.Kind == "Secret" {
				for _, s := range c.Secrets {
					names = append(names, s.Name)
				}
				continue
			}
			for _, m := range c.ConfigMaps {
				names = append(names, m.Name)
			}
		}
		return names, true
	}
	return nil, false
}

// servicePortWords returns the numbers and names of the TCP ports of the Service that an argument names, svc/NAME.
func servicePortWords(a *cli.App, node *run.Node, service string) (out []string) {
	kind, name, _ := strings.Cut(service, "/")
	if !cli.IsServiceType(kind) {
		return nil
	}
	for _, s := range lookup.StoredServices(node, a.NamespaceOrDefault("default")) {
		for _, port := range s.Spec.Ports {
			if s.Name != name || port.Protocol != corev1.ProtocolTCP && port.Protocol != "" {
				continue
			}
			out = append(out, strconv.Itoa(int(port.Port)))
			if port.Name != "" {
				out = append(out, port.Name)
			}
		}
	}
	return out
}

// containerImages returns CONTAINER= for each container of the pod that the arguments name, for set image.
func containerImages(ctx context.Context, a *cli.App, node *run.Node, given []string) (out []string) {
	for _, name := range containerWords(ctx, a, node, given) {
		out = append(out, name+"=")
	}
	return out
}
