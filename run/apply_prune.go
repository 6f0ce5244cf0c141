package run

import (
	"context"
	"errors"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/store"
)

// prunePods deletes the pods and workloads of podrun whose labels match and that the input does not contain. The
// results and the error are those of Delete.
func (a *application) prunePods(ctx context.Context) ([]Result, error) {
	known, err := lookup.Find(ctx, a.node, lookup.Selector{})
	if err != nil {
		return nil, err
	}
	keep, workloads, namespaces := map[string]bool{}, map[identity.Pod]bool{}, a.namespaces()
	for _, p := range a.Objects.Pods {
		keep[p.Object.Namespace+"/"+p.Object.Name] = true
	}
	for _, w := range a.Objects.Workloads {
		workloads[w.ID()] = true
	}
	var pruned []Known
	for _, k := range known {
		if k.Pod != nil && namespaces[k.ID.Namespace] && !keep[k.ID.String()] && a.Prune.Match(k.Pod.Labels) {
			pruned = append(pruned, k)
		}
	}
	_, forget, err := DeleteWorkloads(ctx, a.node, func(r store.WorkloadRecord) bool {
		c, err := r.Checkpoint()
		return err == nil && c != nil && namespaces[r.ID.Namespace] && !workloads[r.ID] && a.Prune.Match(c.Pod.Labels)
	})
	if err != nil || len(pruned) == 0 {
		return nil, errors.Join(err, forget())
	}
	results, err := DeletePods(ctx, a.node, pruned, DeleteOptions{})
	return results, errors.Join(err, forget())
}
