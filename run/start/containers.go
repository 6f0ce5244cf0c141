package start

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/container"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
)

// starting is the state of a container that is being started.
type starting struct {
	action  lifecycle.Action
	image   imagepull.Result
	mounted map[string]imagepull.Result
	config  *runtimeapi.ContainerConfig
	created lifecycle.Container
	err     error // error of the last call to the runtime
	repeats bool  // true if the start failed, and the next pass repeats it
}

// StartsInParallel reports whether podrun may start a container in parallel with its neighbors. This
// requires the start order parallel, and an app container without a postStart hook. A postStart hook must
// finish before the next container is created (k/k#81450).
func (st *Starter) StartsInParallel(a lifecycle.Action) bool {
	if a.Verb != lifecycle.StartContainer || st.pod.Plan.StartOrder != nodeconfig.StartParallel {
		return false
	}
	c := lifecycle.FindContainer(st.pod.Spec(), a.Container)
	return !c.Init && !c.Ephemeral && !lifecycle.HasPostStart(c.Container)
}

// A batch contains the containers that podrun starts together: one, or several in parallel.
type batch struct {
	actions []lifecycle.Action
	next    *lifecycle.Action // the container to create while this batch starts; nil if there is none
	all     []*starting       // the containers whose images are available
	failed  []string          // the containers whose images are not available
}

// created returns the containers that podrun has created and that have not failed to start.
func (b *batch) created() []*starting {
	return slices.DeleteFunc(slices.Clone(b.all), func(s *starting) bool { return s.err != nil })
}

// withPostStart returns the container of the batch that has a postStart hook; nil if there is none. Such a
// container is the only one in its batch.
func (b *batch) withPostStart(pod *corev1.Pod) *starting {
	for _, s := range b.created() {
		if lifecycle.HasPostStart(lifecycle.FindContainer(pod, s.action.Container).Container) {
			return s
		}
	}
	return nil
}

// ensureVolumes creates the volumes that do not exist.
func (st *Starter) ensureVolumes(ctx context.Context, _ *batch) error { return st.Volumes.ensure(ctx) }

// syncCheckpoint makes the checkpoint durable if an earlier podrun process created the pod's sandbox but ended
// before it did so.
func (st *Starter) syncCheckpoint(context.Context, *batch) error {
	if st.durable {
		return nil
	}
	fresh, err := st.lease.Fresh()
	if err == nil && fresh {
		err = node.SyncReserved(st.pod.Plan)
	}
	st.durable = err == nil
	return err
}

// awaitAllImages waits for the images of the batch.
func (st *Starter) awaitAllImages(ctx context.Context, b *batch) error {
	for _, a := range b.actions {
		s, err := st.awaitImages(ctx, a)
		if err != nil {
			return err
		}
		if s == nil {
			b.failed = append(b.failed, a.Container)
			continue
		}
		b.all = append(b.all, s)
	}
	return nil
}

// awaitImages waits for the images of a container: its own image, and those of its image volumes. If an image
// is not available, awaitImages records the failure and returns nil, nil.
func (st *Starter) awaitImages(ctx context.Context, a lifecycle.Action) (*starting, error) {
	s := &starting{action: a}
	var err error
	s.image, err = st.Images.Waiter.take(ctx, a.Container)
	if errors.Is(err, store.ErrChanged) || lease.IsDeleted(err) {
		return nil, err
	}
	if err == nil {
		s.mounted, err = st.volumeImages(ctx, a.Container)
	}
	if errors.Is(err, store.ErrChanged) || lease.IsDeleted(err) || st.lease.Lock.Held == nil {
		return nil, cmp.Or(err, store.ErrChanged)
	}
	if lost := st.lease.Lock.CheckOwned(); lost != nil {
		return nil, cmp.Or(err, lost)
	}
	if err != nil {
		st.fail(err)
		if reason, message, ok := imagepull.Waiting(err); ok {
			return nil, st.pod.KeepStartFailure(a.Container, lifecycle.Waiting{Reason: reason, Message: message}, true)
		}
		return nil, nil
	}
	return s, nil
}

// createAll creates the containers of the batch.
func (st *Starter) createAll(ctx context.Context, b *batch) error {
	all := b.all
	if len(all) == 0 {
		return nil
	}
	sb, sandboxConfig := st.pod.Observed.Sandbox(), st.sandboxConfig()
	for _, s := range all {
		if st.Ahead.take(s) {
			continue
		}
		if s.err = st.removeOld(ctx, s.action.Container); s.err == nil {
			s.config, s.err = st.configs.configOf(ctx, s.action, s.image, s.mounted)
		}
	}
	node.InParallel(all, func(s *starting) struct{} {
		if s.err == nil && s.created.ID == "" {
			s.created.ID, s.err = container.Apply(ctx, st.pod.Node.Client, sb.ID, s.config, sandboxConfig)
		}
		return struct{}{}
	})
	var interrupted error
	for _, s := range all {
		name := s.action.Container
		s.created = s.asCreated(st.pod, sb.ID)
		if s.config == nil {
			// podrun did not call the runtime
			s.created.SandboxID = ""
		}
		if s.err != nil {
			if err := st.notCreated(ctx, s.created, s.err); interrupted == nil {
				interrupted = err
			}
			continue
		}
		st.pod.Emit(event.Normal, event.CreatedContainer, name, "Container created")
		st.pod.Observed.Put(s.created)
	}
	return interrupted
}

// asCreated returns the observed state of a container that has just been created.
func (s *starting) asCreated(p *pod.Pod, sandboxID string) lifecycle.Container {
	name := s.action.Container
	return lifecycle.Container{
		ID:             s.created.ID,
		Name:           name,
		SandboxID:      sandboxID,
		State:          lifecycle.Created,
		Restarts:       s.action.Attempt,
		Image:          s.config.GetImage().GetUserSpecifiedImage(),
		ImageID:        s.image.ImageID,
		Hash:           container.Hash(lifecycle.FindContainer(p.Spec(), name).Container),
		CreatedAt:      time.Now(),
		Annotations:    s.config.GetAnnotations(),
		LogPath:        filepath.Join(p.Plan.Layout.Logs(p.Plan.ID), s.config.GetLogPath()),
		TerminationLog: observe.TerminationLog(s.config.GetMounts(), s.config.GetAnnotations()),
	}
}

// markHook records, before the container starts, that its postStart hook is pending.
func (st *Starter) markHook(_ context.Context, b *batch) error {
	if s := b.withPostStart(st.pod.Spec()); s != nil {
		return st.Hooks.markHook(s.created.ID, lifecycle.HookPending)
	}
	return nil
}

// noteStart records that podrun must keep the pod if a later step fails.
func (st *Starter) noteStart(ctx context.Context, b *batch) error {
	if len(b.created()) == 0 {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return st.lease.BeforeStart()
}

// startAll starts the containers that podrun has created, and begins to create the next one.
func (st *Starter) startAll(ctx context.Context, b *batch) error {
	all := b.created()
	var unwritten error
	if len(all) > 0 {
		unwritten = st.configs.writeHosts(ctx)
	}
	var starts sync.WaitGroup
	for _, s := range all {
		starts.Go(func() {
			if s.err = unwritten; s.err != nil {
				return
			}
			answered, stop := cri.ExtendContext(ctx)
			defer stop()
			s.err = st.pod.Node.Client.StartContainer(answered, s.created.ID)
		})
	}
	if b.next != nil && len(all) > 0 {
		// If this fails, podrun creates the container in its turn.
		st.Ahead.begin(ctx, *b.next)
	}
	starts.Wait()
	var interrupted error
	for _, s := range all {
		if s.err != nil {
			if err := st.startFailed(ctx, s); interrupted == nil {
				interrupted = err
			}
			continue
		}
		st.started(s)
	}
	return interrupted
}

// runHook runs the batch's postStart hook, if it has one.
func (st *Starter) runHook(ctx context.Context, b *batch) error {
	if s := b.withPostStart(st.pod.Spec()); s != nil {
		return st.Hooks.PostStart(ctx, s.action.Container)
	}
	return nil
}

// started records that a container is running, and emits its event.
func (st *Starter) started(s *starting) {
	c := s.created
	c.State = lifecycle.Running
	c.StartedAt = time.Now()
	delete(st.unknownPIDs, c.Name)
	st.pod.Observed.Put(c)
	st.pod.Emit(event.Normal, event.StartedContainer, c.Name, "Container started")
	// As in the kubelet, the container runs even if the link is missing.
	if err := st.logs.link(c, s.config); err != nil {
		st.pod.Node.SendWarnings(problem.List{{
			Object:  "pod " + st.pod.Plan.ID.String() + ": container " + c.Name,
			Warning: true,
			Message: "link its log: " + err.Error(),
		}})
	}
	st.onStart(c, c.LogPath)
}
