package reconcile

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// NewWorkers returns the workers of a command's pods, in the order of targets;
// they share a puller. Each must be released.
func NewWorkers(n *node.Node, targets []prepare.Target, objects *manifest.Objects, locks store.PodLocks) []*Worker {
	out := make([]*Worker, len(targets))
	puller := n.NewPuller()
	for i, t := range targets {
		out[i] = newWorker(n, t.Plan, puller, locks[t.Plan.ID.String()])
		alone := *objects
		alone.Pods = objects.Pods[i : i+1]
		out[i].objects, out[i].policy = &alone, applying(&alone)
	}
	return out
}

// newWorker returns a worker that stops, removes or, with a puller, starts a pod.
func newWorker(n *node.Node, p *prepare.Plan, puller *node.Puller, lock *store.PodLock) *Worker {
	w := &Worker{pod: newState(n, p), mine: map[string]bool{}, policy: attending()}
	w.lease = &owned{pod: w.pod, lock: lock, pace: commandPace()}
	w.stop = &stopper{pod: w.pod, lease: w.lease}
	w.remove = &remover{pod: w.pod, lease: w.lease, stop: w.stop}
	w.probing = &probes{pod: w.pod, lease: w.lease, wake: make(chan struct{}, 1)}
	w.start = &starter{pod: w.pod, lease: w.lease, stop: w.stop, remove: w.remove, onStart: w.started}
	w.start.images = images{puller: puller, taken: map[string]bool{}, waiter: imagesInTurn{w.start}}
	w.waiter = poll{w.pod, observe.RelistAfter}
	if puller != nil {
		puller.Journal(w.pod.journal)
	}
	return w
}

// started notes a container that was started.
func (w *Worker) started(c lifecycle.Container, log string) {
	w.mine[c.ID], w.acted = true, true
	w.logs.started(Log{Pod: w.pod.plan.ID, Container: c.Name, ID: c.ID, State: c.State, Path: log})
}

func (w *state) world() lifecycle.World {
	world := lifecycle.World{Observed: w.obs, Hashes: w.plan.Hashes(), Now: time.Now(), Since: lifecycle.TakenOn(w.pod(), w.obs), BackOff: w.restartBackOff()}
	world.Started, _, world.Unhealthy = w.probed()
	if w.watchesGroup {
		exists := cgroup.ReadExists(w.plan.Cgroup)
		world.GroupLost = w.groupSeen && !exists
		w.groupSeen = w.groupSeen || exists
	}
	return world
}

func (w *state) restartBackOff() lifecycle.RestartBackOff {
	first, longest := w.Node.Settings.CrashLoopBackOff()
	return lifecycle.RestartBackOff{First: first, Longest: longest}
}

// Resume returns a Worker for a pod on this host, from its checkpoint. The caller closes
// it. If the pod's Secrets are lost, the Worker can only stop it. The error is of kind
// Failed if the checkpoint was not found, Refused if the pod cannot be planned, or
// Runtime.
func Resume(ctx context.Context, n *node.Node, id identity.Pod, lock *store.PodLock) (*Worker, error) {
	c, err := store.ReadCheckpoint(n.Layout(), id.UID)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, &problem.Error{Kind: problem.Failed, Object: "pod " + id.String(), Err: errors.New("its checkpoint was not found"),
			Hint: "'podrun delete' removes the rest of it"}
	}
	facts, err := n.HostFacts(ctx)
	if err != nil {
		return nil, err
	}
	owner, err := lock.Owner()
	if err != nil {
		return nil, err
	}
	plan, problems := replan(n, c, facts, n.AppliedSettings(owner))
	if err := problem.Refuse(problem.Refused, problems); err != nil && !c.SecretsLost { // of which until knows
		return nil, err
	}
	w := newWorker(n, plan, n.NewPuller(), lock)
	if err := w.pod.journal.Open(plan.Layout); err != nil {
		return nil, w.closeAfter(err)
	}
	w.lease.hasDir = true
	w.pod.obs, err = n.Observe(ctx, plan.ID.UID)
	if err != nil {
		return nil, w.closeAfter(RuntimeError(id, err))
	}
	return w, nil
}

// replan plans a pod again from its checkpoint.
func replan(n *node.Node, c *manifest.Checkpoint, facts host.Facts, settings nodeconfig.Settings) (*prepare.Plan, problem.List) {
	objects := c.Objects()
	handler, found := prepare.RuntimeHandler(c.Pod, objects)
	allocatable, bad := admission.Allocatable(facts, settings)
	plan, problems := prepare.NewPlan(prepare.PlanInput{
		Pod: c.Pod, UID: string(c.Pod.UID), Objects: objects, Facts: facts, Settings: settings,
		Handler: handler, Invocation: n.Invocation, Allocatable: allocatable,
	})
	plan.WithDevices(plan.DevicesHere())
	plan.Checkpoint.InMemory, plan.Checkpoint.SecretsLost = c.InMemory, c.SecretsLost
	return plan, slices.Concat(found, bad, problems)
}

// Status computes the pod's status from the last observation.
func (w *state) Status() corev1.PodStatus {
	return w.viewOf(observe.Known{ID: w.plan.ID, Pod: w.plan.Pod}, observe.IsStopped(w.plan.Layout, w.plan.ID.UID)).Status
}

// viewOf is the pod as last observed; over means that none of its containers is started
// again.
func (w *state) viewOf(k observe.Known, over bool) *corev1.Pod {
	started, ready, _ := w.probed()
	// A sandbox that this command made was not read from the runtime.
	n := observe.HostInfo{IPs: w.plan.NodeIPs, Runtime: w.plan.Facts.Runtime, Handler: cmp.Or(w.plan.Sandbox.Handler, observe.HandlerOf(w.obs)), BackOff: w.restartBackOff()}
	n.Runtime.Name = w.plan.Runtime
	return observe.ViewOf(context.Background(), k, w.obs, n, over, started, ready)
}
