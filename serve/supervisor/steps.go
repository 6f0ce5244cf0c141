package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// apply applies the source's definition to the pod, and then supervises the pod. Pulls are those of its images; nil if
// they have not begun.
func (p *pod) apply(ctx context.Context, step Step, in stepInput, pulls *imagepull.Pulls) error {
	n := p.node()
	if err := p.awaitRuntime(ctx); err != nil {
		return err
	}
	// This is true if the pod was evicted and its file cannot be read at the moment.
	fromCheckpoint := in.Source != Present
	if !fromCheckpoint && in.recorded == "" && !in.replica {
		// podrun records the source before it creates the pod. If the supervisor is then killed, the
		// next supervisor knows the pod's source, even if the file has been removed.
		if err := store.WriteSource(n.Layout(), p.id, store.SourceRecord{Path: in.path}); err != nil {
			return err
		}
	}
	if has := p.s.options.HasPod; in.Controller == ControllerJob && has != nil && !has(p.id) {
		// podrun writes the source record before this check. The Job first stops the pod and then reads the
		// record, so it cannot consider the pod removed while the pod is starting.
		_ = p.await(ctx, nil, time.Now().Add(sourceLag))
		return errChanged
	}
	if !in.exists() && p.s.options.Starting != nil {
		p.s.options.Starting(p.id)
	}
	var target prepare.Target
	o := reconcile.ApplyOptions{AllowKubelet: p.s.options.AllowKubelet, KeepOnFailure: true, Force: step.Force, Pulls: pulls,
		FromCheckpoint: fromCheckpoint || in.kept, ReplaceCorrupt: in.Checkpoint == CheckpointCorrupt, Supervision: p.supervision(), Source: in.template,
		Admitted: func() error {
			// The pod has a new checkpoint.
			p.noteCorrupt(stepInput{})
			p.endPending(stepInput{})
			if fromCheckpoint || in.replica {
				// The recorded hashes of the source remain valid.
				return nil
			}
			p.noteReverted(in, target)
			p.noteConfig(in, target, step.Force)
			return store.WriteSource(n.Layout(), p.id, store.SourceRecord{Path: in.path, Hash: in.Hash, Documents: documents(in.objects)})
		}}
	if !o.FromCheckpoint {
		o.Origin.Command = store.OriginServe
	}
	if fromCheckpoint {
		o.Source = ""
	}
	o.Supervision.Watch = p.watch(in, o.Source)
	w, target, err := p.admit(ctx, n, &o, func() (*manifest.Objects, error) { return p.definition(in) })
	if w == nil || err != nil {
		return err
	}
	defer w.Release()
	p.succeed()
	result := w.Apply(ctx, target, o)
	if result.Err == nil {
		p.noteEnded(n)
	}
	return result.Err
}

// sourceLag is how long the supervisor waits before it reads the sources again if a Job has stopped a pod since the
// last read.
const sourceLag = 100 * time.Millisecond

// definition returns the definition to apply, which is normally that of the source. If the source cannot be read, or
// if the pod keeps the definition of a command, it returns the definition in the pod's checkpoint, or nil if the
// checkpoint no longer exists.
func (p *pod) definition(in stepInput) (*manifest.Objects, error) {
	if in.Source == Present && !in.kept {
		return in.objects, nil
	}
	c, err := store.ReadCheckpoint(p.node().Layout(), in.id.UID)
	switch {
	case err != nil || c == nil:
		return nil, err
	case c.SecretsLost:
		return nil, store.LostSecrets(in.id)
	case in.kept:
		return withChanged(*c, in.objects, in.documents), nil
	}
	objects := c.Objects()
	for i := range objects.Pods {
		objects.Pods[i].OfCluster = source.IsAPIServerPath(in.recorded)
	}
	return objects, nil
}

// noteReverted reports that the source's definition has replaced that of a command.
func (p *pod) noteReverted(in stepInput, t prepare.Target) {
	if in.kept || !in.exists() || in.Origin == OriginSource || in.Origin == OriginUnclaimed || in.Checkpoint == CheckpointCorrupt || len(t.Changes) == 0 {
		return
	}
	p.node().SendWarnings(problem.List{{Object: "pod " + p.id.String(), Warning: true,
		Message: "the definition in " + source.Shown(in.path) + " has changed, and replaces the one that a command applied; 'podrun rollout undo " + p.id.Name + " -n " + p.id.Namespace + "' returns to that one"}})
}

// noteConfig emits an event for the ConfigMaps and Secrets that have changed in the source.
func (p *pod) noteConfig(in stepInput, t prepare.Target, restarts bool) {
	if t.Change != prepare.ChangeUpdate && !restarts {
		return // a replaced pod begins with the new content
	}
	message := configChanged(t.Changes, restarts)
	if message == "" {
		return
	}
	p.emitAs(t.Plan.ID, event.Normal, event.ConfigChanged, message+" ("+source.Shown(in.path)+")")
}

// configChanged returns the message of the event ConfigChanged, from prepare.Target.Changes; "" if only the pod itself has
// changed.
func configChanged(changes []string, restarts bool) string {
	var names []string
	for _, c := range changes {
		if strings.HasPrefix(c, "ConfigMap ") || strings.HasPrefix(c, "Secret ") {
			names = append(names, c)
		}
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return ""
	case restarts:
		return strings.Join(names, ", ") + " changed: podrun restarts the pod"
	}
	return strings.Join(names, ", ") + " changed: podrun updates the files in volumes; environment variables keep their values until the containers start again"
}

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
