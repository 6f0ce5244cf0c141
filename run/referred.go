package run

import (
	"maps"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/store"
)

// Referred is a ConfigMap or a Secret that pods refer to.
type Referred struct {
	// Object is a *corev1.ConfigMap or a *corev1.Secret. Its creation time is that of the oldest of
	// these pods.
	Object interface {
		runtime.Object
		metav1.Object
	}
	// Lost is an error if podrun kept the data of a Secret only in memory and has lost it.
	// Otherwise Lost is nil.
	Lost error

	applied time.Time // time at which the pod with this copy was applied
}

// ReferredObjects reads the ConfigMaps and Secrets that were applied together with the pods of a
// namespace. The namespace "" means all namespaces. The result is sorted by kind, namespace and
// name. ReferredObjects does not call the runtime. Each pod has its own copy of an object. If the
// copies differ, ReferredObjects returns the one that was applied last. It omits the objects of pods
// whose checkpoints cannot be read.
func ReferredObjects(layout identity.Layout, namespace string) ([]Referred, error) {
	pods, err := store.StoredPods(layout)
	if err != nil {
		return nil, err
	}
	found := map[string]Referred{}
	for _, id := range pods {
		if namespace != "" && id.Namespace != namespace {
			continue
		}
		c, err := store.ViewCheckpoint(layout, id.UID)
		if c == nil || err != nil {
			continue
		}
		applied := appliedAt(layout, id.UID)
		for _, m := range c.ConfigMaps {
			keepNewest(found, "ConfigMap", Referred{Object: m, applied: applied}, c.Pod.CreationTimestamp)
		}
		for _, s := range c.Secrets {
			copied := Referred{Object: s, applied: applied}
			if c.SecretsLost {
				// A copy that still has its data takes precedence.
				copied = Referred{Object: s, Lost: store.LostSecrets(id)}
			}
			keepNewest(found, "Secret", copied, c.Pod.CreationTimestamp)
		}
	}
	var out []Referred
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[key])
	}
	return out, nil
}

// keepNewest adds a pod's copy of an object, unless referred already has a copy that was
// applied later.
func keepNewest(found map[string]Referred, kind string, copied Referred, created metav1.Time) {
	key := kind + " " + copied.Object.GetNamespace() + "/" + copied.Object.GetName()
	have, ok := found[key]
	if ok {
		if first := have.Object.GetCreationTimestamp(); first.Before(&created) {
			created = first
		}
	}
	if !ok || copied.applied.After(have.applied) {
		have = copied
	}
	have.Object.SetCreationTimestamp(created)
	found[key] = have
}

// appliedAt returns when a pod's checkpoint was written, or zero if the time is not known.
func appliedAt(layout identity.Layout, uid string) time.Time {
	info, err := os.Stat(layout.Checkpoint(uid))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
