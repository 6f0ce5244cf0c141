package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// attendAfter is how long podrun pulls the images of a changed definition until it also supervises the existing pod.
// Most images are on this host, and then the pulls end within milliseconds.
const attendAfter = time.Second

// errPulled ends the supervision of a pod while the images of its changed definition were pulled.
var errPulled = errors.New("the images were pulled")

// applyStep is the step Apply of a pod.
type applyStep struct {
	pod  *pod
	step Step
	in   stepInput
}

// run calls apply. For a pod that may run, it first pulls the images of the new definition, while it supervises the
// existing pod. A worker with the new definition cannot do that, because it no longer knows the old one.
func (a applyStep) run(ctx context.Context) error {
	p, in := a.pod, a.in
	if !in.updates() {
		return a.apply(ctx, nil)
	}
	if err := p.awaitRuntime(ctx); err != nil {
		return err
	}
	objects, err := a.definition()
	if err != nil || objects == nil {
		return err
	}
	n, pod := p.node(), objects.Pods[0].Object
	was, err := store.ViewCheckpoint(n.Layout(), in.id.UID)
	if err != nil || was == nil || !a.step.Force && !prepare.Differs(was, pod, objects) {
		return a.apply(ctx, nil) // changes no container
	}
	plan, problems := prepare.Images(manifest.KeepEphemeral(was.Pod, pod), objects, in.id)
	if len(problems.Errors()) > 0 {
		return a.apply(ctx, nil) // refuses the pod
	}
	puller := n.NewPuller()
	journal := &store.Journal{Pod: in.id, Next: n.Emit}
	if err := journal.Open(n.Layout()); err != nil {
		return err
	}
	puller.Journal(journal)
	pulls := puller.Start(ctx, plan)
	err = a.attendDuring(ctx, pulls, func() { puller.Journal(journal) })
	if err != nil {
		pulls.Stop()
	}
	puller.Forget(journal)
	if err = errors.Join(err, journal.Close()); err != nil {
		return err
	}
	defer pulls.Stop()
	return a.apply(ctx, pulls)
}

// attendDuring waits until each image was pulled or its first pull has failed, and returns the error of a pull. If this
// takes long, it also supervises the pod. Attended is called if the supervision ends before the pulls: its worker
// has received the events of the pulls, which have the same UID.
func (a applyStep) attendDuring(ctx context.Context, pulls *imagepull.Pulls, attended func()) error {
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
	go func() { ended <- a.pod.attend(attending, a.in) }()
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
		a.pod.report(err)
		attended()
		return <-attempted
	}
}

// apply applies the source's definition to the pod, and then supervises the pod. Pulls are those of its images; nil if
// they have not begun.
func (a applyStep) apply(ctx context.Context, pulls *imagepull.Pulls) error {
	p, in, n := a.pod, a.in, a.pod.node()
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
	o := reconcile.ApplyOptions{
		AllowKubelet:   p.s.options.AllowKubelet,
		KeepOnFailure:  true,
		Force:          a.step.Force,
		Pulls:          pulls,
		FromCheckpoint: fromCheckpoint || in.kept,
		ReplaceCorrupt: in.Checkpoint == CheckpointCorrupt,
		Supervision:    p.supervision(),
		Source:         in.template,
		Admitted: func() error {
			// The pod has a new checkpoint.
			p.noteCorrupt(stepInput{})
			p.endPending(stepInput{})
			if fromCheckpoint || in.replica {
				// The recorded hashes of the source remain valid.
				return nil
			}
			a.noteReverted(target)
			a.noteConfig(target)
			return store.WriteSource(n.Layout(), p.id, store.SourceRecord{Path: in.path, Hash: in.Hash, Documents: documents(in.objects)})
		},
	}
	if !o.FromCheckpoint {
		o.Origin.Command = store.OriginServe
	}
	if fromCheckpoint {
		o.Source = ""
	}
	o.Supervision.Watch = p.watch(in, o.Source)
	w, target, err := p.admit(ctx, n, &o, a.definition)
	if w == nil || err != nil {
		return err
	}
	defer w.Release()
	p.failures.clear()
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
func (a applyStep) definition() (*manifest.Objects, error) {
	in := a.in
	if in.Source == Present && !in.kept {
		return in.objects, nil
	}
	c, err := store.ReadCheckpoint(a.pod.node().Layout(), in.id.UID)
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
func (a applyStep) noteReverted(t prepare.Target) {
	p, in := a.pod, a.in
	byCommand := in.exists() && in.Checkpoint != CheckpointCorrupt && in.Origin != OriginSource && in.Origin != OriginUnclaimed
	if in.kept || !byCommand || len(t.Changes) == 0 {
		return
	}
	p.node().SendWarnings(problem.List{{Object: "pod " + p.id.String(), Warning: true,
		Message: "the definition in " + source.Shown(in.path) + " has changed, and replaces the one that a command applied; 'podrun rollout undo " + p.id.Name + " -n " + p.id.Namespace + "' returns to that one"}})
}

// noteConfig emits an event for the ConfigMaps and Secrets that have changed in the source.
func (a applyStep) noteConfig(t prepare.Target) {
	if t.Change != prepare.ChangeUpdate && !a.step.Force {
		return // a replaced pod begins with the new content
	}
	message := configChanged(t.Changes, a.step.Force)
	if message == "" {
		return
	}
	a.pod.emitAs(t.Plan.ID, event.Normal, event.ConfigChanged, message+" ("+source.Shown(a.in.path)+")")
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

// updates reports whether a definition changes a pod that podrun has to supervise.
func (f stepInput) updates() bool {
	runs := f.Checkpoint == CheckpointIntact && f.Phase == PhaseActive && f.Halt == HaltNone
	return runs && f.Source == Present && f.Hash != f.Applied && f.Origin != OriginUnclaimed
}
