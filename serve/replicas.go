package serve

import (
	"context"
	"slices"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// replicas changes the pods of the manifest directories to the numbers of pods that commands have set,
// and adds the missing pods of workloads that commands applied (docs/design/replicas.md).
type replicas struct {
	engine   *run.Node
	snapshot *source.Snapshot
	want     source.Desired // a copy, whose maps and slices are copied before they are changed
	taken    map[string]bool
}

// withReplicas returns want with the numbers of pods in the records on disk.
func withReplicas(ctx context.Context, e *run.Node, snapshot *source.Snapshot, want *source.Desired) *source.Desired {
	records, unreadable, err := store.ReadWorkloads(e.Layout(), "")
	for _, err := range []error{unreadable, err} {
		if err != nil {
			e.WarnOnce(problem.WarningOf(err))
		}
	}
	if len(records)+len(want.Workloads) == 0 {
		return want
	}
	r := &replicas{engine: e, snapshot: snapshot, want: *want, taken: map[string]bool{}}
	r.want.Pods = slices.Clone(want.Pods)
	r.want.Replicas = map[string]int32{}
	for i := range want.Pods {
		r.taken[want.Pods[i].Key()] = true
	}
	byID := map[identity.Pod]store.WorkloadRecord{}
	for _, record := range records {
		byID[record.ID] = record
	}
	for _, w := range want.Workloads {
		n := w.Replicas
		record, has := byID[w.ID()]
		delete(byID, w.ID())
		if has && holds(record, w.Workload) {
			n = record.Replicas
		}
		if err := run.RecordWorkload(ctx, e, w.Workload, want.Shared, w.Path, n, record); err != nil {
			e.WarnOnce(problem.WarningOf(err))
		}
		r.ofFile(w, n)
	}
	for _, record := range records {
		if _, left := byID[record.ID]; left {
			r.ofRecord(ctx, record)
		}
	}
	return &r.want
}

// holds reports whether the number of a record is still valid for a workload of a file. It is until the
// number in the file changes.
func holds(r store.WorkloadRecord, w manifest.Workload) bool {
	if r.Deleted || r.Kind != w.Kind {
		return false
	}
	return w.Written == nil || r.Written != nil && *r.Written == *w.Written
}

func (r *replicas) forget(ctx context.Context, record store.WorkloadRecord) {
	if err := run.ForgetWorkload(ctx, r.engine, record.ID, record.Change); err != nil {
		r.engine.WarnOnce(problem.WarningOf(err))
	}
}

// ofFile makes the workload of a file have n pods.
func (r *replicas) ofFile(w source.Workload, n int32) {
	id := w.ID()
	r.want.Replicas[w.Kind+" "+id.String()] = n
	r.want.Pods = slices.DeleteFunc(r.want.Pods, func(p source.Pod) bool {
		index, ok := manifest.ReplicaIndex(id.Name, p.Object.Name)
		return ok && index >= int(n) && p.Object.Namespace == id.Namespace && p.Definition.Kind == w.Kind && p.Definition.WorkloadName(p.Object.Name) == id.Name
	})
	for i := int(w.Replicas); i < int(n); i++ {
		p, claims := w.Replica(i)
		one := source.Pod{Pod: p, Path: w.Path}
		if i > 0 && r.taken[one.Key()] {
			r.reportTaken(w.Kind, id, one.Key())
			continue
		}
		r.want.Pods = append(r.want.Pods, one)
		r.want.Shared.AddClaims(claims)
	}
}

func (r *replicas) reportTaken(kind string, id identity.Pod, pod string) {
	r.engine.WarnOnce(problem.Problem{Object: kind + " " + id.String(), Warning: true,
		Message: "a file defines a pod with the name of its replica " + pod, Hint: "rename that pod"})
}

// ofRecord adds the missing pods of a workload that no file defines.
func (r *replicas) ofRecord(ctx context.Context, record store.WorkloadRecord) {
	if record.Origin != "" {
		if may, _ := r.snapshot.MayDefine(record.Origin); !may {
			r.forget(ctx, record)
			return
		}
	}
	r.want.Replicas[record.Kind+" "+record.ID.String()] = record.Replicas
	switch {
	case record.Deleted:
		if left, err := store.StoredReplicas(r.engine.Layout(), record.Kind, record.ID); err == nil && len(left) == 0 {
			r.forget(ctx, record)
		}
		return
	case record.Origin != "":
		return // its file cannot be read
	}
	objects, err := run.MissingReplicas(r.engine, record)
	if err != nil {
		r.engine.WarnOnce(problem.WarningOf(err))
		return
	}
	for _, p := range objects.Pods {
		own := *objects
		own.Pods = nil
		one := source.Pod{Pod: p, Path: r.engine.Layout().Workload(record.ID), Referred: &own}
		if r.taken[one.Key()] {
			r.reportTaken(record.Kind, record.ID, one.Key())
			continue
		}
		r.want.Pods = append(r.want.Pods, one)
	}
}
