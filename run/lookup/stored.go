package lookup

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// Stored lists the pods that have a checkpoint, in no particular order. It is fast because
// it does not call the runtime.
func Stored(n *node.Node) ([]identity.Pod, error) { return store.StoredPods(n.Layout()) }

// StoredPod reads a pod from its checkpoint; it returns nil if that fails.
func StoredPod(n *node.Node, id identity.Pod) *corev1.Pod {
	return observe.ReadKnown(n.Layout(), id).Pod
}

// StoredCheckpoint reads a pod's checkpoint, which contains the objects from which the pod was
// created. It returns nil if the pod has none.
func StoredCheckpoint(n *node.Node, id identity.Pod) (*manifest.Checkpoint, error) {
	return store.ViewCheckpoint(n.Layout(), id.UID)
}

// References returns the objects to which a pod refers, in the form that an API server accepts
// (manifest.Checkpoint.References). It returns nil if the pod has no checkpoint.
func References(n *node.Node, id identity.Pod) (*manifest.Objects, error) {
	c, err := StoredCheckpoint(n, id)
	if c == nil || err != nil {
		return &manifest.Objects{}, err
	}
	if c.SecretsLost {
		return nil, store.LostSecrets(id)
	}
	return c.References(), nil
}

// IsStored reports whether a pod with this name has a checkpoint that the current user may read.
func IsStored(layout identity.Layout, namespace, name string) bool {
	pods, err := store.StoredNamed(layout, identity.Pod{Namespace: namespace, Name: name})
	return err == nil && slices.ContainsFunc(pods, func(p identity.Pod) bool { return p.Namespace == namespace && p.Name == name })
}

// StoredServices returns the Services of a namespace as they were applied. It omits those whose record is unreadable.
func StoredServices(n *node.Node, namespace string) (out []*corev1.Service) {
	records, _, err := store.ReadServices(n.Layout())
	if err != nil {
		return nil
	}
	for _, r := range records {
		if r.Service.Namespace == namespace {
			out = append(out, r.Service)
		}
	}
	return out
}
