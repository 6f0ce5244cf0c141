package supervisor

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// admit locks the pod and admits its definition, which it reads under the lock, because a command may have changed it. The
// function may change the options. The returned worker is nil if the pod has changed and
// requires another step.
func (p *pod) admit(ctx context.Context, n *node.Node, o *reconcile.ApplyOptions, definition func() (*manifest.Objects, error)) (*reconcile.Worker, prepare.Target, error) {
	lock, err := n.Locks().LockPod(ctx, p.id, store.PurposeRun)
	lock.Supervisor = true
	var objects *manifest.Objects
	if err == nil {
		objects, err = definition()
	}
	if err != nil || objects == nil {
		lock.Release()
		return nil, prepare.Target{}, err
	}
	locks := store.PodLocks{p.id.String(): lock}
	targets, err := n.Admit(ctx, objects, locks, o.Admit())
	if err != nil {
		lock.Release()
		return nil, prepare.Target{}, err
	}
	return reconcile.NewWorkers(n, targets, objects, locks)[0], targets[0], nil
}

// attend supervises the pod without changing it.
func (p *pod) attend(ctx context.Context, in stepInput) error {
	n := p.node()
	if err := p.awaitRuntime(ctx); err != nil {
		return err
	}
	lock, err := n.Locks().LockPod(ctx, in.id, store.PurposeRun)
	defer lock.Release()
	if err != nil {
		return err
	}
	w, err := reconcile.Resume(ctx, n, in.id, lock)
	if err != nil {
		return err
	}
	supervision := p.supervision()
	supervision.ResizePending = p.resizePending(in)
	supervision.Watch = p.watch(in, in.appliedSource())
	ended, err := w.Supervise(ctx, *supervision)
	if err == nil && ended {
		p.noteEnded(n)
	}
	return errors.Join(err, w.Close())
}

// resizePending returns why podrun could not resize the pod in place to its source's definition. It
// returns nil if the definition requires no resize, or if the reason is unknown. A resize that is
// not Infeasible is Deferred, whatever the reason (SetPodResizePendingCondition in
// pkg/kubelet/status).
func (p *pod) resizePending(in stepInput) *lifecycle.ResizePending {
	p.mu.Lock()
	now := p.pending
	p.mu.Unlock()
	if now == nil || in.Source != Present || !now.refused || now.Hash != in.Hash {
		return nil
	}
	known := observe.ReadKnown(p.node().Layout(), in.id)
	if known.Pod == nil || !prepare.Resizes(known.Pod, in.objects.Pods[0].Object) {
		return nil
	}
	reason := now.Reason
	if reason != corev1.PodReasonInfeasible {
		reason = corev1.PodReasonDeferred
	}
	return &lifecycle.ResizePending{Reason: reason, Message: now.Message}
}

func (p *pod) supervision() *reconcile.Supervision {
	s := &reconcile.Supervision{Hub: p.s.hub, OwnerChanged: p.owner, OwnerPoll: ownerPoll, Progress: &p.progress, Corrupt: &p.rewrite}
	if p.s.options.StateChanges == nil {
		s.OwnerPoll = pollEvery
	}
	return s
}

// ownerPoll is the interval at which a worker checks the owner of its pod even without a
// notification.
const ownerPoll = 30 * time.Second

// noteEnded records the generation in which the pod terminated. If a command starts the pod again,
// the generation changes.
func (p *pod) noteEnded(n *node.Node) {
	if r, err := store.ReadOwner(n.Layout(), p.id); err == nil && r != nil {
		p.mu.Lock()
		p.ended = r.Generation
		p.mu.Unlock()
	}
	p.s.resourcesFreed()
}

// delete removes the pod, and then the record of its source.
func (p *pod) delete(ctx context.Context, in stepInput) error {
	n := p.node()
	f, err := n.HostFacts(ctx)
	if err != nil {
		return err
	}
	k := observe.ReadKnown(n.Layout(), in.id)
	lock, err := n.Locks().WithGrace(reconcile.GraceOf(k.Pod, p.removal(in).Grace)).LockPod(ctx, in.id, store.PurposeRemove)
	defer lock.Release()
	if err != nil {
		return err
	}
	// podrun decides again under the lock, because a command may have applied another pod of the
	// same name while this step waited for the lock.
	if now, err := p.situation(time.Now()); err != nil || Decide(now.Situation).Do != Delete || now.id != in.id {
		return err
	}
	if removed := reconcile.Remove(ctx, n, observe.ReadKnown(n.Layout(), in.id), f, lock, p.removal(in)); removed.Err != nil {
		return removed.Err
	}
	if in.Source == Gone {
		return store.RemoveSource(n.Layout(), p.id)
	}
	return nil
}

// awaitRuntime waits until the runtime responds. It returns immediately unless the hub has found
// that the runtime does not respond.
func (p *pod) awaitRuntime(ctx context.Context) error {
	if p.s.hub.Down().IsZero() {
		return nil
	}
	return p.s.hub.AwaitRuntime(ctx)
}
