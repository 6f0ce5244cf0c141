package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
)

// podContainer names a container of a pod.
type podContainer struct{ namespace, pod, container string }

// isContainerID reports whether a name looks like the ID of a container, or its beginning.
func isContainerID(name string) bool {
	return len(name) >= 10 && strings.Trim(name, "0123456789abcdef") == ""
}

// byContainerID returns the container with an ID that was given as the name of a pod, as
// in crictl. It returns nil if notFound is an error other than a missing pod, if the name is
// not an ID, or if the argument container names a different container. As in crictl, the
// beginning of an ID suffices if it is unique, and the namespace matters only if -n or
// PODRUN_NAMESPACE sets it.
func (a *app) byContainerID(ctx context.Context, engine *run.Engine, notFound error, namespace, id, container string) (*podContainer, error) {
	if e, ok := errors.AsType[*problem.Error](notFound); !ok || e.Err != problem.ErrNotFound || !isContainerID(id) {
		return nil, nil
	}
	if a.namespace == "" && namespace == a.namespaceOrDefault("default") {
		namespace = ""
	}
	found, err := containersWithID(ctx, engine, namespace, id)
	switch {
	case err != nil:
		return nil, err
	case len(found) > 1:
		return nil, &problem.Error{Kind: problem.Usage, Object: "container " + id,
			Err:  fmt.Errorf("%d containers have an ID that begins with these digits", len(found)),
			Hint: "specify more digits of the ID, or the name of the pod"}
	case len(found) == 0 || container != "" && container != found[0].container:
		return nil, nil
	}
	return &found[0], nil
}

// containersWithID returns the containers whose ID begins with id; an empty namespace
// selects those of all namespaces.
func containersWithID(ctx context.Context, engine *run.Engine, namespace, id string) ([]podContainer, error) {
	views, err := engine.Pods(ctx, run.Selector{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	var out []podContainer
	for _, v := range views {
		for _, s := range containerStatuses(v.Object) {
			if _, have, _ := strings.Cut(s.ContainerID, "://"); strings.HasPrefix(have, id) {
				out = append(out, podContainer{v.Object.Namespace, v.Object.Name, s.Name})
			}
		}
	}
	return out, nil
}

// containerStatuses returns the statuses of all containers of a pod.
func containerStatuses(p *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses)
}
