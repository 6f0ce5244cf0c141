package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
)

// deleteWorkloads marks the workloads whose pods delete removes, so that podrun serve does not start
// these pods again. forget removes the marks; it must be called after the pods have been removed.
func (a *app) deleteWorkloads(ctx context.Context, e *run.Engine, f *deleteFlags, kinds kindFilter, named []run.Ref, match func(map[string]string) bool) (marked []run.WorkloadRecord, forget func() error, err error) {
	namespace := a.namespaceOrDefault("default")
	if f.allNamespaces {
		namespace = ""
	}
	selected := func(r run.WorkloadRecord) bool {
		if f.fileWorkloads[r.ID] == r.Kind {
			return true
		}
		if namespace != "" && r.ID.Namespace != namespace {
			return false
		}
		if !f.all && f.labels == "" {
			return slices.Contains(named, run.Ref{Kind: r.Kind, Name: r.ID.Name})
		}
		c, err := r.Checkpoint()
		if err != nil || c == nil {
			return f.labels == ""
		}
		return kinds.selects(run.Known{Pod: c.Pod, Definition: c.Definition}, f.labels, match)
	}
	if f.dryRun != dryNone {
		return nil, func() error { return nil }, nil
	}
	return e.DeleteWorkloads(ctx, selected)
}

// replicas returns selectors of the pods of the named objects, and of the workloads in the files.
func (f *deleteFlags) replicas(a *app, e *run.Engine, named []run.Ref) (out []run.Selector, missing error) {
	namespace := a.namespaceOrDefault("default")
	for id, kind := range f.fileWorkloads {
		names, err := run.Ref{Kind: kind, Name: id.Name}.Replicas(e.Layout(), id.Namespace)
		missing = errors.Join(missing, err)
		for _, name := range names {
			out = append(out, run.Selector{Namespace: id.Namespace, Names: []string{name}})
		}
	}
	for _, ref := range named {
		names, err := ref.ResolveAll(e.Layout(), namespace)
		_, none := errors.AsType[*run.NoReplicas](err)
		switch {
		case none && f.dryRun != dryNone:
			fmt.Fprintf(a.streams.Err, "%s would be deleted (dry run)\n", ref)
			f.foundWorkloads = true
			continue
		case err != nil:
			missing = errors.Join(missing, f.missingRef(a, ref, err))
			continue
		}
		isMarked := slices.ContainsFunc(f.deleted, func(r run.WorkloadRecord) bool {
			return r.ID == identity.Pod{Namespace: namespace, Name: ref.Name} && r.Kind == ref.Kind
		})
		if isMarked {
			// The names are those of its pods only if there are any.
			if names, err = ref.Replicas(e.Layout(), namespace); err != nil {
				missing = errors.Join(missing, err)
			}
		}
		for _, name := range names {
			out = append(out, run.Selector{Namespace: namespace, Names: []string{name}})
		}
	}
	return out, missing
}

// noteWorkloads reports deleted workloads that had no pods.
func (a *app) noteWorkloads(r *renderer, marked []run.WorkloadRecord, pods []run.Known) {
	for _, w := range marked {
		if slices.ContainsFunc(pods, func(k run.Known) bool { return isReplica(w, k.ID.Namespace, k.ID.Name) }) {
			continue
		}
		a.printDeleted(r, resourceOf(w.Kind)+"/"+w.ID.Name)
	}
}

// isReplica reports whether a pod has the name of a replica of a workload.
func isReplica(w run.WorkloadRecord, namespace, name string) bool {
	_, replica := manifest.ReplicaIndex(w.ID.Name, name)
	return replica && namespace == w.ID.Namespace
}
