package observe

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/store"
)

// Known is a pod of podrun that exists on this host: in the runtime, in the root directory, or in
// both.
type Known struct {
	ID  identity.Pod
	Pod *corev1.Pod // from the checkpoint; nil if the checkpoint is missing or corrupt
	// Definition is the object that defines the pod. It is nil if the pod has no readable checkpoint, or
	// if an older release wrote the checkpoint.
	Definition *manifest.Definition
	// Broken explains why the checkpoint cannot be read, and how to fix it. podrun can only show
	// and delete a pod with such a checkpoint. Broken is nil if the checkpoint is readable or
	// missing.
	Broken error
	// LostSecrets is an error if podrun kept the pod's Secrets in memory only and has lost them:
	// podrun cannot start a container of the pod until the pod is applied again. Otherwise LostSecrets
	// is nil.
	LostSecrets error
	// Deletion is non-nil if a command has begun to remove the pod, even if that command was
	// killed. ReadKnown does not set it.
	Deletion *store.Deletion
}

// Leftover reports whether the pod has a sandbox but no definition, because it has no checkpoint.
// podrun can only show and delete such a pod.
func (k Known) Leftover() bool { return k.Pod == nil && k.Broken == nil }

// ReadKnown reads the checkpoint of a pod. The result distinguishes a missing checkpoint from one
// that podrun cannot read.
func ReadKnown(layout identity.Layout, id identity.Pod) Known {
	c, err := store.ViewCheckpoint(layout, id.UID)
	switch {
	case err != nil:
		if broken, ok := errors.AsType[*problem.Error](err); ok {
			err = store.BrokenCheckpoint(id, broken.Err) // names the pod for which the checkpoint was found
		}
		return Known{ID: id, Broken: err}
	case c == nil:
		return Known{ID: id}
	}
	k := Known{ID: id, Pod: c.Pod, Definition: c.Definition}
	if c.SecretsLost {
		k.LostSecrets = store.LostSecrets(id)
	}
	return k
}
