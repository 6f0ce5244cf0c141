package reconcile

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/container"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// starting is a container on its way to run.
type starting struct {
	action  lifecycle.Action
	image   imagepull.Result
	mounted map[string]imagepull.Result
	config  *runtimeapi.ContainerConfig
	created lifecycle.Container
	err     error // of the call to the runtime that was made last
}

// startsBeside reports whether a container may be started in parallel with those next to
// it: an app container without a postStart hook, of a pod that asks for it. A hook ends
// before the next container is created (k/k#81450).
func (w *starter) startsBeside(a lifecycle.Action) bool {
	if a.Verb != lifecycle.StartContainer || !w.pod.Plan.ParallelStart {
		return false
	}
	c := lifecycle.FindContainer(w.pod.Spec(), a.Container)
	return !c.Init && !c.Ephemeral && !lifecycle.HasPostStart(c.Container)
}

// startContainers waits for the containers' images, creates the containers, starts them
// and runs the postStart hook of one that is alone. Of several, all are created at once,
// and then started at once. Only an interruption is returned as an error; a container's
// own trouble is noted in failures, and its name returned.
func (w *starter) startContainers(ctx context.Context, actions ...lifecycle.Action) (failed []string, err error) {
	if err := w.ensureVolumes(ctx); err != nil {
		return nil, err
	}
	var ready []*starting
	for _, a := range actions {
		s, err := w.awaitImages(ctx, a)
		if err != nil {
			return failed, err
		}
		if s == nil {
			failed = append(failed, a.Container)
			continue
		}
		ready = append(ready, s)
	}
	if len(ready) == 0 {
		return failed, nil
	}
	if sb := w.pod.Observed.Sandbox(); sb == nil || !sb.Ready {
		return failed, store.ErrChanged // it has ended while images were pulled
	}
	made, err := w.createAll(ctx, ready)
	if err == nil && len(made) > 0 {
		err = w.startAll(ctx, made)
	}
	for _, s := range ready {
		if s.err != nil {
			failed = append(failed, s.action.Container)
		}
	}
	return failed, err
}

// awaitImages waits for the images of a container: its own, and those that it mounts. Nil
// without an error means that they is not available, which is noted.
func (w *starter) awaitImages(ctx context.Context, a lifecycle.Action) (*starting, error) {
	s := &starting{action: a}
	var err error
	s.image, err = w.images.waiter.take(ctx, a.Container)
	if errors.Is(err, store.ErrChanged) || lease.IsDeleted(err) {
		return nil, err
	}
	if err == nil {
		s.mounted, err = w.volumeImages(ctx, a.Container)
	}
	if errors.Is(err, store.ErrChanged) || lease.IsDeleted(err) || w.lease.Lock.Held == nil {
		return nil, w.lease.OrNotOwner(err)
	}
	if lost := w.lease.Lock.CheckOwned(); lost != nil {
		return nil, cmp.Or(err, lost)
	}
	if err != nil {
		w.fail(err)
		return nil, nil
	}
	return s, nil
}

// createAll creates containers, and returns those that are there.
func (w *starter) createAll(ctx context.Context, all []*starting) (made []*starting, _ error) {
	sb, sandboxConfig := w.pod.Observed.Sandbox(), w.sandboxConfig()
	for _, s := range all {
		s.config, s.err = w.configOf(ctx, s.action, s.image, s.mounted)
	}
	node.InParallel(all, func(s *starting) struct{} {
		if s.err == nil {
			s.created.ID, s.err = container.Apply(ctx, w.pod.Node.Client, sb.ID, s.config, sandboxConfig)
		}
		return struct{}{}
	})
	var interrupted error
	for _, s := range all {
		name := s.action.Container
		spec := lifecycle.FindContainer(w.pod.Spec(), name).Container
		s.created = lifecycle.Container{
			ID: s.created.ID, Name: name, SandboxID: sb.ID, State: lifecycle.Created, Restarts: s.action.Attempt,
			Image: s.config.GetImage().GetUserSpecifiedImage(), ImageID: s.image.ImageID, Hash: container.Hash(spec),
			CreatedAt: time.Now(), Annotations: s.config.GetAnnotations(),
			TerminationLog: observe.TerminationLog(s.config.GetMounts(), s.config.GetAnnotations()),
		}
		if s.config == nil {
			s.created.SandboxID = "" // the runtime was not asked
		}
		if s.err != nil {
			s.created.LogPath = filepath.Join(w.pod.Plan.Layout.Logs(w.pod.Plan.ID), s.config.GetLogPath())
			if err := w.notCreated(ctx, s.created, s.err); interrupted == nil {
				interrupted = err
			}
			continue
		}
		w.pod.Emit(event.Normal, event.CreatedContainer, name, "Container created")
		w.pod.Observed.Put(s.created)
		made = append(made, s)
	}
	return made, interrupted
}

// startAll starts containers that were created.
func (w *starter) startAll(ctx context.Context, all []*starting) error {
	hooked := lifecycle.HasPostStart(lifecycle.FindContainer(w.pod.Spec(), all[0].action.Container).Container) // and then it is alone
	if hooked {
		if err := w.markHook(all[0].created.ID, lifecycle.HookPending); err != nil {
			return err
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err := w.lease.BeforeStart(); err != nil {
		return err
	}
	node.InParallel(all, func(s *starting) struct{} {
		answered, stop := cri.LastAnswer(ctx)
		defer stop()
		s.err = w.pod.Node.Client.StartContainer(answered, s.created.ID)
		return struct{}{}
	})
	var interrupted error
	for _, s := range all {
		if s.err != nil {
			if err := w.containerFailed(ctx, s.action.Container, stepStart, s.err); interrupted == nil {
				interrupted = err
			}
			hooked = false
			continue
		}
		w.started(s)
	}
	if hooked && interrupted == nil {
		return w.postStart(ctx, all[0].action.Container)
	}
	return interrupted
}

// started notes and reports that a container runs.
func (w *starter) started(s *starting) {
	c := s.created
	c.State, c.StartedAt = lifecycle.Running, time.Now()
	w.pod.Observed.Put(c)
	w.pod.Emit(event.Normal, event.StartedContainer, c.Name, "Container started")
	if err := w.linkLog(c, s.config); err != nil { // no reason not to run it, as in the kubelet
		w.pod.Node.SendWarnings(problem.List{{Object: "pod " + w.pod.Plan.ID.String() + ": container " + c.Name, Warning: true, Message: "link its log: " + err.Error()}})
	}
	w.onStart(c, filepath.Join(w.pod.Plan.Layout.Logs(w.pod.Plan.ID), s.config.GetLogPath()))
}
