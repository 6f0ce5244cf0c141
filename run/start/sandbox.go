package start

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/stop"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/sandbox"
	"github.com/podrun/podrun/volume"
)

// A newSandbox is a sandbox that is being created.
type newSandbox struct {
	attempt uint32
	fresh   bool // true if no container of the pod has been started yet; set by makeVolumesFirst
}

// announceSandbox reports that podrun is replacing the sandbox.
func (st *Starter) announceSandbox(_ context.Context, n *newSandbox) error {
	if n.attempt > 0 {
		st.pod.Emit(event.Normal, event.SandboxChanged, "", "Pod sandbox changed, it will be killed and re-created.")
	}
	return nil
}

// undoLogs removes the logs of a pod whose first sandbox could not be created.
func (st *Starter) undoLogs(_ context.Context, n *newSandbox) error {
	if n.attempt > 0 {
		return nil
	}
	return st.remove.Logs()
}

// makeVolumesFirst creates the volumes that must exist before the sandbox. If no container of the pod has been
// started yet, podrun may create volumes concurrently with the sandbox, because Volumes.ensure checks them later.
// Otherwise it must create them first, because a podrun process that finds such a sandbox assumes that the volumes
// exist. It always creates two kinds of volumes first: slow ones, because it creates them without the pod's lock, and
// volumes of the host, because podrun must not create the sandbox if one of them is missing.
func (st *Starter) makeVolumesFirst(ctx context.Context, n *newSandbox) (err error) {
	n.fresh, err = st.lease.Fresh()
	if err != nil || n.fresh && n.attempt == 0 && !st.pod.Plan.Volumes.Slow() && !st.pod.Plan.Volumes.DependsOnHost() {
		return err
	}
	if err := st.Volumes.make(ctx); err != nil {
		st.Volumes.emitMountErrors(ctx, err)
		return err
	}
	st.Volumes.made = true
	return nil
}

// makeSandboxAndVolumes creates the sandbox and, concurrently, the remaining volumes. It makes the
// checkpoint of a new pod durable.
func (st *Starter) makeSandboxAndVolumes(ctx context.Context, n *newSandbox) error {
	volumes := !st.Volumes.made
	prepared := make(chan error, 1)
	go func() { prepared <- st.syncAndMakeVolumes(ctx, n.fresh, volumes) }()
	err := st.makeSandbox(ctx, n.attempt)
	failed := <-prepared
	st.Volumes.made = failed == nil
	st.durable = failed == nil
	st.Volumes.emitMountErrors(ctx, failed)
	return joinErrors(ctx, failed, err)
}

// joinErrors joins the errors of two concurrent steps. If the context has ended, both errors report
// only that, so joinErrors returns one of them.
func joinErrors(ctx context.Context, concurrent, err error) error {
	if ctx.Err() != nil && err != nil {
		return err
	}
	return errors.Join(concurrent, err)
}

// syncAndMakeVolumes performs the steps that do not require the sandbox, while the runtime creates it. If
// durable is true, it makes the checkpoint durable. It then creates the volumes. It must not use fields of
// st that the creation of the sandbox changes.
func (st *Starter) syncAndMakeVolumes(ctx context.Context, durable, volumes bool) (err error) {
	defer trace.Begin(ctx, "checkpoint and volumes, while the sandbox is created", st.pod.Plan.ID.String())()
	var synced error
	var wait sync.WaitGroup
	if durable {
		wait.Go(func() { synced = node.SyncReserved(st.pod.Plan) })
	}
	if volumes {
		err = volume.Apply(ctx, st.pod.Plan.Volumes)
	}
	wait.Wait()
	return errors.Join(synced, err)
}

// makeSandbox creates the pod's sandbox. While it is unknown whether the runtime has created the
// sandbox, makeSandbox makes up to maxSandboxTries attempts. It also makes another attempt after podrun has
// repaired the sandbox image. It registers each undo step before the call that the step undoes.
func (st *Starter) makeSandbox(ctx context.Context, attempt uint32) error {
	plan, repaired := st.sandboxPlan(attempt), false
	for try := 0; ; try++ {
		begun := time.Now()
		made, err := st.trySandbox(ctx, plan)
		if st.lease.Lock.Killed && cri.Reserved(err) {
			made, err = st.awaitKilled(ctx, plan, err)
		}
		st.unanswered = st.unanswered || cri.Interrupted(err) || cri.Reserved(err)
		if errors.Is(err, store.ErrChanged) {
			return err
		}
		if err == nil {
			st.addSandbox(plan, made)
			// From here on, admission counts the sandbox itself.
			st.lease.Lock.Reservation.Release()
			return st.removeDead(ctx)
		}
		// If podrun canceled the call, this is not a failure.
		if !errors.Is(ctx.Err(), context.Canceled) {
			st.pod.Emit(event.Warning, event.FailedCreatePodSandBox, "", "Failed to create pod sandbox: "+sandboxCause(err).Error())
		}
		again := sandbox.InDoubt(err)
		if repair := st.pod.Node.RepairImages; repair != nil && !again && !repaired && ctx.Err() == nil {
			repaired = repair(ctx, begun)
			again = repaired
		}
		if try == maxSandboxTries-1 || !again || ctx.Err() != nil {
			return st.sandboxError(err, nil)
		}
		next, rerr := sandbox.Recover(ctx, st.pod.Node.Client, plan, err)
		if rerr != nil {
			st.lease.Lock.NoteUnreleased(sandbox.Unstopped(rerr))
			return st.sandboxError(err, rerr)
		}
		plan = st.sandboxPlan(next)
	}
}

// maxSandboxTries is the maximum number of attempts to create a sandbox while it is unknown whether
// the runtime has created it.
const maxSandboxTries = 3

func (st *Starter) trySandbox(ctx context.Context, plan sandbox.Plan) (sandbox.Sandbox, error) {
	st.lease.Undo.Push("remove sandbox", func(ctx context.Context) error {
		return stop.DuringOutage(ctx, func() error {
			err := sandbox.Remove(ctx, st.pod.Node.Client, plan)
			st.lease.Lock.NoteUnreleased(sandbox.Unstopped(err))
			return err
		})
	})
	return sandbox.Apply(ctx, st.pod.Node.Client, plan)
}

// sandboxError returns the error for a sandbox that could not be created. cleanup is the error that
// occurred when podrun removed the leftovers of the attempt, or nil.
func (st *Starter) sandboxError(err, cleanup error) error {
	out := &problem.Error{Kind: problem.Runtime, Object: "pod " + st.pod.Plan.ID.String(),
		Op: "create sandbox", Err: err, Hint: sandboxHint(err, st.pod.Plan.Facts.Runtime)}
	if image := sandboxImage(err); image != "" {
		out.Kind = problem.Image
		out.Hint = sandboxImageHint(image, st.pod.Plan.Facts.Runtime)
	}
	if e, ok := err.(*problem.Error); ok {
		out.Op = e.Op
		out.Err = e.Err
	}
	if cleanup != nil {
		out.Err = fmt.Errorf("%w; %w", out.Err, cleanup)
	}
	return out
}

// sandboxCause removes the pod and the step from an error, because the event already names them.
func sandboxCause(err error) error {
	if e, ok := err.(*problem.Error); ok {
		return e.Err
	}
	return err
}

// sandboxPlan returns the plan of the sandbox for the given attempt.
func (st *Starter) sandboxPlan(attempt uint32) sandbox.Plan {
	plan := st.pod.Plan.Sandbox
	plan.Attempt = attempt
	plan.Config = proto.CloneOf(plan.Config)
	plan.Config.Metadata.Attempt = attempt
	plan.Config.Annotations[identity.AnnotationGeneration] = st.lease.Lock.Mine.String()
	return plan
}

// sandboxConfig returns the config with which the current sandbox was created, because CreateContainer
// requires it.
func (st *Starter) sandboxConfig() *runtimeapi.PodSandboxConfig {
	sb := st.pod.Observed.Sandbox()
	config := st.sandboxPlan(sb.Attempt).Config
	config.Annotations[identity.AnnotationInvocation] = sb.Invocation
	if config.Annotations[identity.AnnotationGeneration] = sb.Generation; sb.Generation == "" {
		// An older version of podrun created the sandbox.
		delete(config.Annotations, identity.AnnotationGeneration)
	}
	return config
}

// addSandbox makes a newly created sandbox the pod's current one.
func (st *Starter) addSandbox(plan sandbox.Plan, made sandbox.Sandbox) {
	st.pod.Observed.Sandboxes = append([]lifecycle.Sandbox{{
		ID: made.ID, Pod: st.pod.Plan.ID, Attempt: plan.Attempt, Ready: true, CreatedAt: time.Now(),
		HostNetwork: plan.HostNetwork, IPs: made.IPs, Managed: true, Invocation: st.pod.Node.Invocation, Generation: st.lease.Lock.Mine.String(),
	}}, st.pod.Observed.Sandboxes...)
}

// undoGroups removes the pod's cgroups.
func (st *Starter) undoGroups(ctx context.Context, _ *newSandbox) error {
	if st.unanswered {
		return st.remove.GroupsUnanswered(ctx)
	}
	return st.remove.Groups(ctx)
}

// makeGroups creates the pod's cgroups.
func (st *Starter) makeGroups(ctx context.Context, _ *newSandbox) error {
	defer trace.Begin(ctx, "control groups", st.pod.Plan.ID.String())()
	if err := st.pod.Node.UnderNodeLock(ctx, func() error { return cgroup.Apply(ctx, st.pod.Plan.Cgroup) }); err != nil {
		if e, ok := errors.AsType[*problem.Error](err); ok && e.Kind == problem.Refused {
			return err
		}
		return &problem.Error{Kind: problem.Runtime, Object: "pod " + st.pod.Plan.ID.String(), Op: "create the pod's cgroup", Err: err}
	}
	return nil
}

// sandboxHint returns a hint for a runtime's error that is hard to understand. It returns "" for
// other errors.
func sandboxHint(err error, runtime host.Runtime) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "expected cgroupsPath to be of format"):
		return "the runtime uses the systemd cgroup driver: use --cgroup-driver=systemd, or configure the runtime to use cgroupfs"
	case strings.Contains(text, "can't get final child's PID"):
		return "the runtime lacks the capability to lower oom_score_adj: " + runtime.LowerOOM()
	}
	return ""
}
