package run

import (
	"context"

	"github.com/podrun/podrun/manifest"
)

// Prune removes podrun's pods whose labels match and that objects does not contain, for `apply
// --prune -l`. Like kubectl, it considers only the namespaces of the pods in objects, or the
// namespace argument if objects has no pods. The results and the error are those of Delete.
func (e *Engine) Prune(ctx context.Context, objects *manifest.Objects, namespace string, match func(map[string]string) bool, o DeleteOptions) ([]Result, error) {
	known, err := e.Find(ctx, Selector{})
	if err != nil {
		return nil, err
	}
	keep, namespaces := map[string]bool{}, map[string]bool{}
	for _, p := range objects.Pods {
		namespaces[p.Object.Namespace] = true
		keep[p.Object.Namespace+"/"+p.Object.Name] = true
	}
	if len(objects.Pods) == 0 {
		namespaces[namespace] = true
	}
	var pruned []Known
	for _, k := range known {
		if k.Pod != nil && namespaces[k.ID.Namespace] && !keep[k.ID.String()] && match(k.Pod.Labels) {
			pruned = append(pruned, k)
		}
	}
	if len(pruned) == 0 {
		return nil, nil
	}
	return e.Delete(ctx, pruned, o)
}
