package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
)

// podContainer names a container of a pod.
type podContainer struct{ Namespace, Pod, Container string }

// isContainerID reports whether a name looks like the ID of a container, or its beginning.
func isContainerID(name string) bool {
	return len(name) >= 10 && strings.Trim(name, "0123456789abcdef") == ""
}

// ByContainerID returns the container for a command line that has the ID of a container in
// place of a pod's name, as in crictl. It returns nil if NotFound is not the error for a
// missing pod, or if the name is not an ID. It also returns nil if the argument container names
// a different container. As in crictl, the beginning of an ID suffices if it is unique, and the
// namespace matters only if -n or PODRUN_NAMESPACE sets it.
func (a *App) ByContainerID(ctx context.Context, node *run.Node, notFound error, namespace, id, container string) (*podContainer, error) {
	if e, ok := errors.AsType[*problem.Error](notFound); !ok || e.Err != problem.ErrNotFound || !isContainerID(id) {
		return nil, nil
	}
	if a.Namespace == "" && namespace == a.NamespaceOrDefault("default") {
		namespace = ""
	}
	found, err := containersWithID(ctx, node, namespace, id)
	switch {
	case err != nil:
		return nil, err
	case len(found) > 1:
		return nil, &problem.Error{Kind: problem.Usage, Object: "container " + id,
			Err:  fmt.Errorf("%d containers have an ID that begins with these digits", len(found)),
			Hint: "specify more digits of the ID, or the name of the pod"}
	case len(found) == 0 || container != "" && container != found[0].Container:
		return nil, nil
	}
	return &found[0], nil
}

// containersWithID returns the containers whose ID begins with id. An empty namespace selects
// those of all namespaces.
func containersWithID(ctx context.Context, node *run.Node, namespace, id string) ([]podContainer, error) {
	views, err := lookup.Pods(ctx, node, lookup.Selector{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	var out []podContainer
	for _, v := range views {
		for _, s := range view.ContainerStatuses(v.Object) {
			if _, have, _ := strings.Cut(s.ContainerID, "://"); strings.HasPrefix(have, id) {
				out = append(out, podContainer{v.Object.Namespace, v.Object.Name, s.Name})
			}
		}
	}
	return out, nil
}

// IDKind specifies whose IDs a command accepts as names of pods.
type IDKind int

const (
	// SandboxID is for commands that change pods, such as crictl stopp and rmp. They refuse the ID
	// of a container, because they act on all containers of its pod.
	SandboxID IDKind = iota
	// AnyID is for commands that only read, such as crictl inspect and stats.
	AnyID
)

// PodsOfIDs replaces each ID in refs by the name of the pod to which it belongs. Users of crictl
// abbreviate IDs: the first 10 digits suffice. If an ID is also the name of a pod, it is treated
// as the name. As in crictl, the namespace matters only if -n or PODRUN_NAMESPACE sets it.
// Otherwise PodsOfIDs sets a.namespace to the namespace of the first ID's pod. Names that are
// not IDs remain unchanged.
func (a *App) PodsOfIDs(ctx context.Context, node *run.Node, refs []lookup.Ref, accept IDKind) ([]lookup.Ref, error) {
	if !slices.ContainsFunc(refs, isIDRef) {
		return refs, nil
	}
	stored := StoredPods(node, a.NamespaceOrDefault("default"))
	views, err := lookup.Pods(ctx, node, lookup.Selector{Namespace: a.Namespace})
	if err != nil {
		return nil, err
	}
	var out []lookup.Ref
	for _, ref := range refs {
		if isIDRef(ref) && !slices.ContainsFunc(stored, func(p identity.Pod) bool { return p.Name == ref.Name }) {
			pod, err := podOfID(views, a.Namespace, ref.Name, accept)
			if err != nil {
				return nil, err
			}
			if pod.Name != "" {
				ref.Name, a.Namespace = pod.Name, pod.Namespace
			}
		}
		if !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	return out, nil
}

// isIDRef reports whether a reference to a pod may be an ID.
func isIDRef(ref lookup.Ref) bool { return ref.Kind == "" && isContainerID(ref.Name) }

// podOfID returns the pod with an ID that begins with id, or none.
func podOfID(views []lookup.View, namespace, id string, accept IDKind) (found identity.Pod, err error) {
	for _, v := range views {
		if namespace != "" && v.ID.Namespace != namespace || !hasID(v, id, accept) {
			continue
		}
		if found.Name != "" {
			return identity.Pod{}, &problem.Error{
				Kind:   problem.Usage,
				Object: "ID " + id,
				Err:    errors.New("several pods have an ID that begins with these digits"),
				Hint:   "specify more digits of the ID, or the name of the pod",
			}
		}
		found = v.ID
	}
	return found, nil
}

// hasID reports whether a pod has a sandbox or a container whose ID begins with id.
func hasID(v lookup.View, id string, accept IDKind) bool {
	return slices.ContainsFunc(v.Observed.Sandboxes, func(s lifecycle.Sandbox) bool { return strings.HasPrefix(s.ID, id) }) ||
		accept == AnyID && slices.ContainsFunc(v.Observed.Containers, func(c lifecycle.Container) bool { return strings.HasPrefix(c.ID, id) })
}
