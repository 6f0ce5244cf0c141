package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// attendAfter is how long podrun pulls the images of a changed definition until it also supervises the existing pod.
// Most images are on this host, and then the pulls end within milliseconds.
const attendAfter = time.Second

// errPulled ends the supervision of a pod while the images of its changed definition were pulled.
var errPulled = errors.New("the images were pulled")

// update is apply for a pod that may run: it first pulls the images of the new definition, while it supervises the
// existing pod. A worker with the new definition cannot do that, because it no longer knows the old one.
func (p *pod) update(ctx context.Context, step Step, in stepInput) error {
	if !in.updates() {
		return p.apply(ctx, step, in, nil)
	}
	if err := p.awaitRuntime(ctx); err != nil {
		return err
	}
	objects, err := p.definition(in)
	if err != nil || objects == nil {
		return err
	}
	n, pod := p.node(), objects.Pods[0].Object
	was, err := store.ViewCheckpoint(n.Layout(), in.id.UID)
	if err != nil || was == nil || !step.Force && !prepare.Differs(was, pod, objects) {
		return p.apply(ctx, step, in, nil) // changes no container
	}
	plan, problems := prepare.Images(manifest.KeepEphemeral(was.Pod, pod), objects, in.id)
	if len(problems.Errors()) > 0 {
		return p.apply(ctx, step, in, nil) // refuses the pod
	}
	puller := n.NewPuller()
	journal := &store.Journal{Pod: in.id, Next: n.Emit}
	if err := journal.Open(n.Layout()); err != nil {
		return err
	}
	puller.Journal(journal)
	pulls := puller.Start(ctx, plan)
	err = p.attendDuring(ctx, in, pulls, func() { puller.Journal(journal) })
	if err != nil {
		pulls.Stop()
	}
	puller.Forget(journal)
	if err = errors.Join(err, journal.Close()); err != nil {
		return err
	}
	defer pulls.Stop()
	return p.apply(ctx, step, in, pulls)
}

// updates reports whether a definition changes a pod that podrun has to supervise.
func (f stepInput) updates() bool {
	return f.Checkpoint == CheckpointIntact && f.Phase == PhaseActive && f.Halt == HaltNone && f.Source == Present && f.Hash != f.Applied && f.Origin != OriginUnclaimed
}

// attendDuring waits until each image was pulled or its first pull has failed, and returns the error of a pull. If this
// takes long, it also supervises the pod. Attended is called if the supervision ends before the pulls: its worker
// has received the events of the pulls, which have the same UID.
func (p *pod) attendDuring(ctx context.Context, in stepInput, pulls *imagepull.Pulls, attended func()) error {
	attempted := make(chan error, 1)
	go func() { attempted <- pulls.Attempted(ctx) }()
	soon := time.NewTimer(attendAfter)
	defer soon.Stop()
	select {
	case err := <-attempted:
		return err
	case <-soon.C:
	}
	attending, end := context.WithCancelCause(ctx)
	defer end(nil)
	ended := make(chan error, 1)
	go func() { ended <- p.attend(attending, in) }()
	select {
	case err := <-attempted:
		end(errPulled)
		<-ended
		return err
	case err := <-ended:
		if errors.Is(err, errChanged) || errors.Is(err, reconcile.ErrOwned) || lease.IsDeleted(err) {
			pulls.Stop()
			<-attempted
			return err
		}
		// The pod has ended, or podrun cannot supervise it: the new definition is what remains to be done.
		p.report(err)
		attended()
		return <-attempted
	}
}
