package lookup

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/run/store"
)

// Claim is a PersistentVolumeClaim that has its own directory.
type Claim struct {
	Object *corev1.PersistentVolumeClaim // includes the status; if no pod uses the claim, only the name is set
	Path   string
	Pods   []string // names of the pods that use it
}

// Claims lists the claims of a namespace that have directories of their own. The namespace "" means
// all namespaces. It lists the claims that pods of this root directory use, and the claims that
// have a directory in --pvc-dir even if no pod uses them. The result is sorted by namespace, name
// and path. Claims skips pods whose checkpoints cannot be read. It also skips claims without a
// directory of their own, because such claims have no state apart from their pods.
func Claims(s nodeconfig.Settings, namespace string) ([]Claim, error) {
	pods, err := store.StoredPods(s.Layout())
	if err != nil {
		return nil, err
	}
	found := map[string]*Claim{} // by path
	for _, id := range pods {
		used, err := store.ProvisionedClaims(s.Layout(), id.UID)
		if err != nil {
			continue
		}
		for path, claim := range used {
			if found[path] == nil {
				found[path] = &Claim{Object: claim, Path: path}
			}
			found[path].Pods = append(found[path].Pods, id.Name)
		}
	}
	kept, err := store.KeptClaims(s.ClaimDir)
	if err != nil {
		return nil, err
	}
	for path, claim := range kept {
		if found[path] == nil {
			found[path] = &Claim{Object: claim, Path: path}
		}
	}
	var out []Claim
	for _, path := range slices.Sorted(maps.Keys(found)) {
		c := found[path]
		c.Object.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
		c.Object.Status.Phase = corev1.ClaimBound
		slices.Sort(c.Pods)
		if namespace == "" || c.Object.Namespace == namespace {
			out = append(out, *c)
		}
	}
	slices.SortStableFunc(out, func(a, b Claim) int {
		return slices.Compare([]string{a.Object.Namespace, a.Object.Name}, []string{b.Object.Namespace, b.Object.Name})
	})
	return out, nil
}
