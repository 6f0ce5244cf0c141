package supervisor

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// addUpdate adds the state of the pod's update to the inputs of Decide.
func (p *pod) addUpdate(in *stepInput) (err error) {
	if in.update, err = store.ReadUpdate(p.node().Layout(), p.id); err != nil {
		return err
	}
	in.workload, in.template = p.s.templateOf(p.id, *in)
	if u := in.update; u != nil {
		in.RollingBack = u.State == store.UpdateRollingBack
		if in.Source == Present && u.Rejected != nil && u.Rejected.Source == in.template {
			in.rejected = u.Rejected
		}
	}
	if of := p.s.rolls.rejection(in.workload); of != nil && in.rejected == nil && in.Source == Present && of.Source == in.template {
		in.rejected = of
		if u := in.update; u != nil && u.State == store.UpdateProgressing && u.Source == in.template {
			in.RollingBack = true
		}
	}
	in.Rejected = in.rejected != nil
	return nil
}

// watch returns how the pod's worker judges updates to a definition with the given source; nil if it does not, because the
// pod's controller decides.
func (p *pod) watch(in stepInput, hash string) *reconcile.Watch {
	if in.Controller != ControllerNone {
		return nil
	}
	w := &reconcile.Watch{Source: hash, Workload: in.workload}
	if in.workload != "" && hash != "" {
		w.Available = func() bool { return p.s.passed(p, in.workload, hash) }
	}
	return w
}

// appliedSource returns the hash of the source's definition that the pod has; "" if a command defined the pod.
func (in stepInput) appliedSource() string {
	if in.Source != Present || in.Hash != in.Applied || in.Origin != OriginSource || in.Rejected {
		return ""
	}
	return in.template
}

// rollBackStep is the step RollBack of a pod.
type rollBackStep struct {
	pod     *pod
	in      stepInput
	options reconcile.ApplyOptions
}

// run restores the last good definition of the pod, and then supervises the pod.
func (r *rollBackStep) run(ctx context.Context) error {
	p, n := r.pod, r.pod.node()
	if err := p.awaitRuntime(ctx); err != nil {
		return err
	}
	var target prepare.Target
	r.options = reconcile.ApplyOptions{
		AllowKubelet:   p.s.options.AllowKubelet,
		KeepOnFailure:  true,
		FromCheckpoint: true,
		RollsBack:      true,
		ReplaceCorrupt: r.in.Checkpoint == CheckpointCorrupt,
		Supervision:    p.supervision(),
		Admitted: func() error {
			p.noteCorrupt(stepInput{})
			return r.noteRolledBack(target)
		},
	}
	r.options.Supervision.Watch = p.watch(r.in, "")
	w, target, err := p.admit(ctx, n, &r.options, r.lastGood)
	if w == nil || err != nil {
		return err
	}
	defer w.Release()
	p.failures.clear()
	result := w.Apply(ctx, target, r.options)
	if result.Err == nil {
		p.noteEnded(n)
	}
	return result.Err
}

// lastGood returns the definition to restore, and sets options.Force. It returns errChanged if the pod requires another step,
// also because there is no such definition. The pod's lock must be held.
func (r *rollBackStep) lastGood() (*manifest.Objects, error) {
	p, layout, in := r.pod, r.pod.node().Layout(), &r.in
	now, err := p.situation(time.Now())
	if err != nil {
		return nil, err
	}
	if Decide(now.Situation).Do != RollBack || now.id != in.id {
		return nil, errChanged
	}
	*in = now
	if in.update == nil || in.update.State != store.UpdateRollingBack && in.RollingBack {
		// Another replica has rejected the definition.
		next := store.UpdateRecord{}
		if in.update != nil {
			next = *in.update
		}
		next.State = store.UpdateRollingBack
		next.Rejected = in.rejected
		next.At = in.Now.UTC()
		next.Reason = in.rejected.Reason
		next.Message = in.rejected.Message
		if err := store.WriteUpdate(layout, p.id, next); err != nil {
			return nil, err
		}
		in.update = &next
	}
	good, err := store.ReadGood(layout, in.id)
	if err != nil && !store.IsCorrupt(err) {
		return nil, err
	}
	var current *manifest.Checkpoint
	if in.Checkpoint != CheckpointCorrupt {
		if current, err = store.ViewCheckpoint(layout, in.id.UID); err != nil {
			return nil, err
		}
	}
	if good == nil || good.Made.SecretsLost && !restoreSecrets(&good.Made, current, in.objects) {
		return nil, r.cannotRollBack()
	}
	r.options.Force = in.ended() || current == nil || current.Hash() != good.Made.Hash()
	good.Made.Pod.UID = types.UID(in.id.UID)
	return good.Made.Objects(), nil
}

// restoreSecrets sets the Secrets of a definition whose Secrets were in memory and are lost, from the pod's checkpoint or
// from its source. It reports whether all of them were found; they may have newer content.
func restoreSecrets(c *manifest.Checkpoint, current *manifest.Checkpoint, source *manifest.Objects) bool {
	found := map[string]*corev1.Secret{}
	if source != nil {
		for name, s := range source.Secrets {
			found[name] = s
		}
	}
	if current != nil && !current.SecretsLost {
		for _, s := range current.Secrets {
			found[s.Namespace+"/"+s.Name] = s
		}
	}
	c.Secrets = slices.Clone(c.Secrets)
	for i, s := range c.Secrets {
		if c.Secrets[i] = found[s.Namespace+"/"+s.Name]; c.Secrets[i] == nil {
			return false
		}
	}
	c.SecretsLost = false
	return true
}

// cannotRollBack records that podrun has no definition to restore. If the pod has a definition that can run, it
// keeps it; otherwise podrun applies the definition of the source again. It returns errChanged, or an error of the disk.
func (r *rollBackStep) cannotRollBack() error {
	p, layout, in := r.pod, r.pod.node().Layout(), r.in
	if in.Checkpoint != CheckpointIntact {
		if err := store.RemoveUpdate(layout, p.id); err != nil {
			return err
		}
		return errChanged
	}
	next := *in.update
	next.State = store.UpdateExceeded
	next.At = in.Now.UTC()
	next.Rejected = nil
	if err := store.WriteUpdate(layout, p.id, next); err != nil {
		return err
	}
	p.emit(in.id, event.ProgressDeadlineExceeded, "the definition is bad, and podrun has lost the last one that was good: "+next.Reason+": "+next.Message)
	return errChanged
}

// noteRolledBack records and reports that the last good definition is in effect.
func (r *rollBackStep) noteRolledBack(t prepare.Target) error {
	p, in, next := r.pod, r.in, *r.in.update
	message := "podrun has restored the last good definition, because the update failed: " + next.Reason + ": " + next.Message
	if next.Rejected != nil {
		message += "; it applies the definition in " + source.Shown(in.path) + " again when the file changes"
	}
	if next.State == store.UpdateRollingBack {
		p.emit(t.Plan.ID, event.RolledBack, message)
		p.node().SendWarnings(problem.List{{Object: "pod " + p.id.String(), Reason: event.RolledBack, Warning: true, Message: message}})
		if p.s.options.RolledBack != nil {
			p.s.options.RolledBack(next.Reason)
		}
	}
	next.State = store.UpdateRolledBack
	next.Definition = t.Plan.Checkpoint.Hash()
	next.Source = ""
	next.At = time.Now().UTC()
	if err := store.WriteUpdate(p.node().Layout(), p.id, next); err != nil {
		return err
	}
	p.s.rolls.end(in.workload, p.id)
	p.check() // show the rejected definition
	return nil
}

// spreadRejection makes the other replicas of the workload roll back, too.
func (p *pod) spreadRejection(in stepInput) {
	// The worker has just written the record. If it cannot be read, the next supervisor reads it.
	if u, err := store.ReadUpdate(p.node().Layout(), p.id); err == nil && u != nil {
		p.s.rolls.reject(u.Rejected)
		p.s.checkReplicas(p.id, in.workload)
	}
}

// noteRejected shows a definition of the source that podrun has rolled back as one that is not in effect.
func (p *pod) noteRejected(in stepInput) {
	if !in.Rejected || in.RollingBack {
		return
	}
	now := &pending{Pending: store.Pending{
		Hash:      in.Hash,
		Namespace: p.id.Namespace,
		Name:      p.id.Name,
		Source:    source.Shown(in.path),
		Reason:    event.RolledBack,
		Message:   "podrun has rolled it back, and applies it again when it changes: " + in.rejected.Reason + ": " + in.rejected.Message,
		Since:     in.rejected.At,
	}}
	for _, c := range in.containers() {
		now.Containers = append(now.Containers, c.Name)
	}
	p.mu.Lock()
	same := p.pending != nil && p.pending.Hash == now.Hash && p.pending.Reason == now.Reason && p.pending.Message == now.Message
	if !same {
		p.pending = now
	}
	p.mu.Unlock()
	if !same {
		p.s.published.Send()
	}
}
