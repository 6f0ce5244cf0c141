package reconcile

import (
	"context"
	"errors"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/start"
	"github.com/podrun/podrun/run/stop"
	"github.com/podrun/podrun/run/store"
)

// NewWorkers returns the workers of a command's pods, in the order of targets. They share a puller.
// The caller must release each of them.
func NewWorkers(n *node.Node, targets []prepare.Target, objects *manifest.Objects, locks store.PodLocks) []*Worker {
	out := make([]*Worker, len(targets))
	puller := n.NewPuller()
	for i, t := range targets {
		out[i] = newWorker(n, t.Plan, puller, locks[t.Plan.ID.String()])
		alone := *objects
		alone.Pods = objects.Pods[i : i+1]
		out[i].objects = &alone
		out[i].loop.policy = applyPolicy(&alone)
	}
	return out
}

// Worker works on one pod, either for one operation such as apply, or for serve. It is not safe for
// concurrent use.
type Worker struct {
	pod     *pod.Pod
	lease   *lease.Lease
	stop    *stop.Stopper
	remove  *stop.Remover
	loop    *loop
	objects *manifest.Objects // for apply: this pod and the objects to which it refers
}

// newWorker returns a worker that can stop and remove a pod and, with a puller, start it.
func newWorker(n *node.Node, p *prepare.Plan, puller *node.Puller, lock *store.PodLock) *Worker {
	w := &Worker{pod: pod.New(n, p)}
	w.lease = lease.New(w.pod, lock)
	w.stop = stop.NewStopper(w.lease)
	w.remove = stop.RemoverWith(w.stop)
	l := &loop{pod: w.pod, lease: w.lease, stop: w.stop, mine: map[string]bool{}, policy: waitPolicy(), waiter: poll{w.pod, observe.RelistAfter}}
	l.probing = &probes{pod: w.pod, lease: w.lease, wake: wait.NewSignal()}
	l.start = start.New(w.lease, w.stop, w.remove, puller, l.started)
	w.loop = l
	if puller != nil {
		puller.Journal(w.pod.Journal)
	}
	return w
}

// started records that a container was started.
func (l *loop) started(c lifecycle.Container, log string) {
	l.mine[c.ID], l.acted = true, true
	l.logs.started(Log{Pod: l.pod.Plan.ID, Container: c.Name, ID: c.ID, State: c.State, Path: log})
}

// Resume returns a Worker for a pod on this host, according to the pod's checkpoint. The caller must
// close it. If the pod's Secrets are lost, the Worker can only stop the pod. The error is of kind
// Failed if the checkpoint was not found, Refused if the pod cannot be planned, otherwise Runtime.
func Resume(ctx context.Context, n *node.Node, id identity.Pod, lock *store.PodLock) (*Worker, error) {
	c, err := store.ReadCheckpoint(n.Layout(), id.UID)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, &problem.Error{Kind: problem.Failed, Object: "pod " + id.String(), Err: errors.New("its checkpoint was not found"),
			Hint: "run 'podrun delete' to remove its leftovers"}
	}
	facts, err := n.HostFacts(ctx)
	if err != nil {
		return nil, err
	}
	owner, err := lock.Owner()
	if err != nil {
		return nil, err
	}
	plan, problems := pod.Replan(n, c, facts, n.AppliedSettings(owner))
	// If the Secrets are lost, loop.until reports it.
	if err := problem.Refuse(problem.Refused, problems); err != nil && !c.SecretsLost {
		return nil, err
	}
	w := newWorker(n, plan, n.NewPuller(), lock)
	if err := w.pod.Journal.Open(plan.Layout); err != nil {
		return nil, w.closeAfter(err)
	}
	w.lease.HasDir = true
	w.pod.Observed, err = n.Observe(ctx, plan.ID.UID)
	if err != nil {
		return nil, w.closeAfter(pod.RuntimeError(id, err))
	}
	return w, nil
}
