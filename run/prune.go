package run

import (
	"context"

	"github.com/podrun/podrun/manifest"
)

// Prune removes podrun's pods whose labels match and that the objects do not
// have: what `apply --prune -l` leaves out of its manifest. Only the namespaces
// that the objects' pods are in are looked at, as with kubectl.
func (e *Engine) Prune(ctx context.Context, objects *manifest.Objects, match func(map[string]string) bool, o DeleteOptions) ([]Result, error) {
	known, err := e.Find(ctx, Selector{})
	if err != nil {
		return nil, err
	}
	keep, namespaces := map[string]bool{}, map[string]bool{}
	for _, p := range objects.Pods {
		namespaces[p.Object.Namespace] = true
		keep[p.Object.Namespace+"/"+p.Object.Name] = true
	}
	var gone []Known
	for _, k := range known {
		if k.Pod != nil && namespaces[k.ID.Namespace] && !keep[k.ID.String()] && match(k.Pod.Labels) {
			gone = append(gone, k)
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	return e.Delete(ctx, gone, o)
}
