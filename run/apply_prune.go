package run

import (
	"context"
	"errors"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/store"
)

// Prune implements `apply --prune -l`: it removes the pods of podrun whose labels match and that
// are not in objects. Like kubectl, it considers only the namespaces of the pods in objects, or the
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
	workloads := map[identity.Pod]bool{}
	for _, w := range objects.Workloads {
		namespaces[w.ID().Namespace], workloads[w.ID()] = true, true
	}
	if len(objects.Pods)+len(objects.Workloads) == 0 {
		namespaces[namespace] = true
	}
	var pruned []Known
	for _, k := range known {
		if k.Pod != nil && namespaces[k.ID.Namespace] && !keep[k.ID.String()] && match(k.Pod.Labels) {
			pruned = append(pruned, k)
		}
	}
	_, forget, err := e.DeleteWorkloads(ctx, func(r store.WorkloadRecord) bool {
		c, err := r.Checkpoint()
		return err == nil && c != nil && namespaces[r.ID.Namespace] && !workloads[r.ID] && match(c.Pod.Labels)
	})
	if err != nil || len(pruned) == 0 {
		return nil, errors.Join(err, forget())
	}
	results, err := e.Delete(ctx, pruned, o)
	return results, errors.Join(err, forget())
}
