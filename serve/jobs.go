package serve

import (
	"context"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/jobs"
	"github.com/podrun/podrun/serve/schedule"
	"github.com/podrun/podrun/serve/source"

	corev1 "k8s.io/api/core/v1"
)

// withJobs is a source of supervisor: the manifest directories, if there are any, and the pods of Jobs and
// of a cluster.
type withJobs struct {
	engine *run.Node
	files  *sources // nil if there are no directories
	jobs   *jobs.Controller
	// cluster is nil if this host is not a node of a cluster
	cluster Cluster
}

// Read reads the directories, and adds the pods of Jobs and of the cluster.
func (w *withJobs) Read(ctx context.Context) (*source.Snapshot, *source.Desired, error) {
	snapshot, want := &source.Snapshot{}, source.Merge(&source.Snapshot{})
	if w.files != nil {
		var err error
		if snapshot, want, err = w.files.Read(ctx); err != nil {
			return nil, nil, err
		}
	}
	if w.files == nil {
		want = withReplicas(ctx, w.engine, snapshot, want)
	}
	snapshot, want = w.jobs.Merge(snapshot, want)
	if w.cluster != nil {
		snapshot, want = w.cluster.Merge(snapshot, want)
	}
	return snapshot, want, nil
}

// newJobs returns the controller of Jobs and CronJobs. It calls reread when the pods of
// Jobs have changed.
func newJobs(e *run.Node, reread func()) (*jobs.Controller, error) {
	return jobs.New(jobs.Options{Layout: e.Layout(), Holder: e.Holder(), Warn: e.SendWarnings,
		States: func(ctx context.Context, namespace string, names []string) (map[string]schedule.PodState, error) {
			return jobPods(ctx, e, namespace, names)
		},
		Changed: reread})
}

// noteJobs makes a node report its events, and changes of the state of pods, to the controller of Jobs.
// The end of a container causes no event.
func noteJobs(c *jobs.Controller, n *node.Node) {
	changed := n.Observer.Changed
	n.Observer.Changed = func(id identity.Pod) {
		c.NoteChange(id)
		if changed != nil {
			changed(id)
		}
	}
	emit := n.Emit
	n.Emit = func(e event.Event) {
		c.NoteChange(identity.Pod{Namespace: e.Namespace, Name: e.Pod})
		if emit != nil {
			emit(e)
		}
	}
}

// jobPods reads the states of pods of Jobs.
func jobPods(ctx context.Context, e *run.Node, namespace string, names []string) (map[string]schedule.PodState, error) {
	views, err := lookup.Pods(ctx, e, lookup.Selector{Namespace: namespace, Names: names})
	if err != nil {
		return nil, err
	}
	seen := map[string]lookup.View{}
	for _, v := range views {
		// A pod without a UID could not be started yet.
		if v.ID.UID != "" {
			seen[v.ID.Name] = v
		}
	}
	out := map[string]schedule.PodState{}
	for _, name := range names {
		id := identity.Pod{Namespace: namespace, Name: name}
		v, exists := seen[name]
		switch {
		case !exists:
			out[name], err = absentPod(e, id)
		case v.Definition != nil && v.Definition.Kind != "Job":
			// Another object has replaced the pod.
			out[name] = schedule.PodState{Gone: true, Absent: true}
		case v.Pod == nil, isShutDown(e, v):
			out[name] = schedule.PodState{}
		default:
			out[name] = schedule.PodState{Pod: v.Object}
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// absentPod returns the state of a pod that the runtime and the root directory do not have. While the pod
// has a source record, the supervisor may be starting it.
func absentPod(e *run.Node, id identity.Pod) (schedule.PodState, error) {
	from, err := store.ReadSource(e.Layout(), id)
	if err != nil {
		return schedule.PodState{}, err
	}
	owner, err := store.ReadOwner(e.Layout(), id)
	if err != nil || owner != nil {
		// A command is starting or removing the pod.
		return schedule.PodState{}, err
	}
	return schedule.PodState{Absent: from == nil, Gone: from != nil && from.Hash != ""}, nil
}

// isShutDown reports whether podrun stopped a pod because the host is shutting down. podrun starts
// such a pod again after the boot.
func isShutDown(e *run.Node, v lookup.View) bool {
	return v.Pod.Spec.RestartPolicy != corev1.RestartPolicyNever && !observe.ReadKept(e.Layout(), v.ID.UID).ShutDown.IsZero()
}
