package observe

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/store"
)

// Known is a pod of podrun's that is on this host: on the runtime, in the root
// directory, or both.
type Known struct {
	ID  identity.Pod
	Pod *corev1.Pod // from its checkpoint; nil when that is missing or broken
	// Broken is why the checkpoint cannot be read, with what to do; nil if it can,
	// or is missing. Such a pod can be shown and deleted, nothing else.
	Broken error
	// LostSecrets is why nothing of the pod can be started until it is applied again:
	// its Secrets were kept in memory only; nil if they are there.
	LostSecrets error
	// Deletion is set for a pod that is being removed, also if the command that began it was
	// killed. ReadKnown does not set it.
	Deletion *store.Deletion
}

// Leftover reports whether the pod has no definition: podrun finds its sandbox, and no
// checkpoint. Such a pod can be shown and deleted, nothing else.
func (k Known) Leftover() bool { return k.Pod == nil && k.Broken == nil }

// ReadKnown reads the checkpoint of a pod. That it is missing or cannot be read is in
// the result.
func ReadKnown(layout identity.Layout, id identity.Pod) Known {
	c, err := store.ViewCheckpoint(layout, id.UID)
	switch {
	case err != nil:
		if broken, ok := errors.AsType[*problem.Error](err); ok {
			err = store.BrokenCheckpoint(id, broken.Err) // by the name that it was found by
		}
		return Known{ID: id, Broken: err}
	case c == nil:
		return Known{ID: id}
	}
	k := Known{ID: id, Pod: c.Pod}
	if c.SecretsLost {
		k.LostSecrets = store.LostSecrets(id)
	}
	return k
}
