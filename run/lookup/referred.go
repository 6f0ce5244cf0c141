package lookup

import (
	"maps"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
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
// namespace, and those that podrun keeps for CronJobs and for workloads without pods. The namespace ""
// means all namespaces. The result is sorted by kind, namespace and name. ReferredObjects does not call the runtime. Each pod has its own copy of an object. If the
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
		applied := writtenAt(layout.Pod(id.UID).Checkpoint())
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
	if err := keptObjects(layout, namespace, found); err != nil {
		return nil, err
	}
	var out []Referred
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[key])
	}
	return out, nil
}

// keptObjects adds the objects that the records of CronJobs and of workloads contain. It omits unreadable
// records, which other commands report.
func keptObjects(layout identity.Layout, namespace string, found map[string]Referred) error {
	add := func(path string, created metav1.Time, configMaps []*corev1.ConfigMap, secrets []*corev1.Secret, lost error) {
		applied := writtenAt(path)
		for _, m := range configMaps {
			keepNewest(found, "ConfigMap", Referred{Object: m, applied: applied}, created)
		}
		for _, s := range secrets {
			keepNewest(found, "Secret", Referred{Object: s, Lost: lost, applied: applied}, created)
		}
	}
	records, err := store.ReadRecords(layout)
	if err != nil {
		return err
	}
	for _, r := range records.CronJobs {
		if c := r.CronJob; r.Dependencies != nil && !r.Deleting() && (namespace == "" || c.Namespace == namespace) {
			add(layout.CronJob(c.Namespace, c.Name), c.CreationTimestamp, r.Dependencies.ConfigMaps, r.Dependencies.Secrets, nil)
		}
	}
	workloads, _, err := store.ReadWorkloads(layout, namespace)
	for _, w := range workloads {
		if c, err := w.Checkpoint(); c != nil && err == nil && w.Replicas == 0 && !w.Deleted {
			var lost error
			if c.SecretsLost {
				lost = store.LostSecrets(w.ID)
			}
			add(layout.Workload(w.ID), c.Pod.CreationTimestamp, c.ConfigMaps, c.Secrets, lost)
		}
	}
	return err
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

// writtenAt returns when a file was written, or zero if the time is not known.
func writtenAt(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
