package run

import (
	"context"
	"slices"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/store"
)

// markWorkloads marks the workloads whose pods Delete removes, so that podrun serve does not start these pods
// again. forget removes the marks; it must be called after the pods have been removed.
func (d *deletion) markWorkloads(ctx context.Context) (marked []store.WorkloadRecord, forget func() error, err error) {
	if d.DryRun {
		return nil, nil, nil
	}
	files := d.fileWorkloads()
	marked, forget, err = DeleteWorkloads(ctx, d.node, func(r store.WorkloadRecord) bool {
		switch {
		case files[r.ID] == r.Kind:
			return true
		case d.Every == nil:
			return r.ID.Namespace == d.Namespace && slices.Contains(d.Named, lookup.Ref{Kind: r.Kind, Name: r.ID.Name})
		case !d.Every.AllNamespaces && r.ID.Namespace != d.Namespace:
			return false
		}
		c, err := r.Checkpoint()
		if err != nil || c == nil {
			return !d.Every.Labelled
		}
		return d.Every.Pods(Known{Pod: c.Pod, Definition: c.Definition})
	})
	for _, w := range marked {
		d.gone[object{w.ID.Namespace, lookup.Ref{Kind: w.Kind, Name: w.ID.Name}}] = true
		d.report.Entries = append(d.report.Entries, d.entry(w.Kind, w.ID.Namespace, w.ID.Name, OutcomeMarked))
	}
	return marked, forget, err
}

// fileWorkloads returns the kinds of the workloads in the files.
func (d *deletion) fileWorkloads() map[identity.Pod]string {
	out := map[identity.Pod]string{}
	if d.Files == nil {
		return out
	}
	for _, w := range d.Files.Workloads {
		out[w.ID()] = w.Kind
	}
	for _, p := range d.Files.Pods {
		if kind, name := p.WorkloadRef(); manifest.IsReplicated(kind) {
			out[identity.Pod{Namespace: p.Object.Namespace, Name: name}] = kind
		}
	}
	return out
}

// reportWorkloads reports the deleted workloads that had no pods; the pods of the others have entries.
func (d *deletion) reportWorkloads(marked []store.WorkloadRecord, pods []Known) {
	d.report.Entries = slices.DeleteFunc(d.report.Entries, func(e Entry) bool { return e.Outcome == OutcomeMarked })
	for _, w := range marked {
		of := object{w.ID.Namespace, lookup.Ref{Kind: w.Kind, Name: w.ID.Name}}
		if !slices.ContainsFunc(pods, func(k Known) bool { return isReplica(of, k.ID.Namespace, k.ID.Name) }) {
			d.report.Entries = append(d.report.Entries, d.entry(w.Kind, w.ID.Namespace, w.ID.Name, OutcomeDeleted))
		}
	}
}
