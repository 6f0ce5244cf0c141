package run

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// onPod calls do for a pod on this host, under the pod's lock, and then reads the pod's
// status.
func (e *Engine) onPod(ctx context.Context, k Known, outcome Outcome, locks store.Locks, p store.Purpose, do func(*reconcile.Worker) error) Result {
	result := Result{ID: k.ID, Outcome: outcome}
	lock, err := locks.LockPod(ctx, k.ID, p)
	defer lock.Release()
	if err != nil {
		result.Err = err
		return result
	}
	s, err := reconcile.Resume(ctx, &e.Node, k.ID, lock)
	if err != nil {
		result.Err = reconcile.ReadHostError(ctx, err)
		return result
	}
	result.Err = errors.Join(do(s), s.Close())
	result.Status = s.Status()
	return result
}

// seen is a pod on this host, with its observed state.
type seen struct {
	id  identity.Pod
	pod *corev1.Pod // reconstructed from the runtime's data if there is no checkpoint
	obs *lifecycle.Observed
}

// observePod finds one pod and observes it. The observation omits containers that podrun created before their
// turn. The error is of kind Failed if the pod is not found, and Runtime if the runtime does not respond.
func (e *Engine) observePod(ctx context.Context, namespace, name string) (seen, error) {
	if _, err := discover.Reach(ctx, e.Client); err != nil {
		return seen{}, err
	}
	known, err := e.Find(ctx, Selector{Namespace: namespace, Names: []string{name}})
	if err != nil {
		return seen{}, err
	}
	if len(known) == 0 {
		return seen{}, &problem.Error{Kind: problem.Failed, Object: "pod " + namespace + "/" + name, Err: problem.ErrNotFound, Hint: "run 'podrun get -A' to list all pods"}
	}
	s := seen{id: known[0].ID, pod: known[0].Pod}
	if s.obs, err = e.Observe(ctx, s.id.UID); err != nil {
		return seen{}, pod.RuntimeError(s.id, err)
	}
	if s.pod == nil {
		s.pod = observe.WithoutCheckpoint(s.id, s.obs)
	}
	s.obs = s.obs.WithoutCreatedAhead(s.pod)
	return s, nil
}
