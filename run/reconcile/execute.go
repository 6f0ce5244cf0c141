package reconcile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/dns"
	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/sandbox"
	"github.com/podrun/podrun/volume"
)

// execute does the actions in order. An error ends the sync; what goes wrong
// with a single container is noted in failures, and the next one has its turn,
// as in the kubelet.
func (s *Worker) execute(ctx context.Context, actions []lifecycle.Action) error {
	var late []lifecycle.Action // of containers whose images are backed off from
	for i := 0; i < len(actions); i++ {
		a := actions[i]
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		s.acted = true
		last := i == len(actions)-1 && len(late) == 0
		if !last && !slices.Contains(late, a) {
			backsOff, err := s.imageBacksOff(ctx, a)
			if err != nil {
				return err
			}
			if backsOff {
				late, actions = append(late, a), append(actions, a)
				continue
			}
		}
		if err := s.executeOne(ctx, a); err != nil {
			return err
		}
		if len(s.failures) > 0 && a.Verb == lifecycle.StartContainer && lifecycle.FindContainer(s.pod(), a.Container).Init {
			return nil // what comes after an init container depends on it
		}
	}
	return nil
}

func (s *Worker) executeOne(ctx context.Context, a lifecycle.Action) error {
	switch a.Verb {
	case lifecycle.KillPod:
		return s.ofRuntime(s.killPod(ctx))
	case lifecycle.CreateSandbox:
		return s.createSandbox(ctx, a)
	case lifecycle.KillContainer:
		grace := s.gracePeriod()
		if a.Grace != nil {
			grace = time.Duration(*a.Grace) * time.Second
		}
		return s.killContainer(ctx, a.ID, grace, a.Message)
	case lifecycle.StartContainer:
		return s.startContainer(ctx, a)
	case lifecycle.RestartAll:
		return s.restartAll(ctx)
	case lifecycle.RunPostStart:
		c := s.obs.Container(a.Container)
		if c == nil {
			return fmt.Errorf("container %s is gone", a.Container)
		}
		return s.postStart(ctx, *c)
	}
	return fmt.Errorf("unknown action %s", a.Verb)
}

// ofRuntime names the pod in an error of the runtime. Other errors, which say that
// the pod is another command's by now, name it already.
func (s *Worker) ofRuntime(err error) error {
	if _, named := errors.AsType[*problem.Error](err); named || err == nil || errors.Is(err, store.ErrChanged) {
		return err
	}
	return RuntimeError(s.plan.ID, err)
}

// restartAll stops every container, and keeps on disk that those which are here
// no longer count.
func (s *Worker) restartAll(ctx context.Context) error {
	if err := s.stopContainers(ctx, s.gracePeriod()); err != nil {
		return s.ofRuntime(err)
	}
	epoch := time.Now()
	file := s.plan.Layout.RestartEpoch(s.plan.ID.UID)
	err := os.MkdirAll(filepath.Dir(file), 0o750)
	if err == nil {
		err = store.WriteState(file, []byte(epoch.Format(time.RFC3339Nano)), 0o640)
	}
	if err != nil {
		return fmt.Errorf("pod %s: keep that its containers are restarted: %w", s.plan.ID, err)
	}
	s.obs.Epoch = epoch
	return nil
}

// createSandbox makes the pod's control groups, directories and volumes, then
// its sandbox. Each undo is registered before what it undoes.
func (s *Worker) createSandbox(ctx context.Context, a lifecycle.Action) error {
	if a.Attempt > 0 {
		s.emit(event.Normal, event.SandboxChanged, "", "Pod sandbox changed, it will be killed and re-created.")
	}
	if a.Attempt == 0 {
		s.undo.push("remove the pod's logs", func(context.Context) error { return s.removeLogs() })
	}
	if err := s.makeHost(ctx); err != nil {
		return err
	}
	plan := s.sandboxPlan(a.Attempt)
	for try := 0; ; try++ {
		made, err := s.trySandbox(ctx, plan)
		if err == nil {
			s.takeSandbox(plan, made)
			s.lock.Reservation.Release() // the sandbox counts itself
			return s.writeHosts(made.IPs)
		}
		s.emit(event.Warning, event.FailedCreatePodSandBox, "", "Failed to create pod sandbox: "+sandboxCause(err).Error())
		if try == maxSandboxTries-1 || !sandbox.InDoubt(err) || ctx.Err() != nil {
			return s.sandboxError(err, nil)
		}
		next, rerr := sandbox.Recover(ctx, s.Client, plan, err)
		if rerr != nil {
			return s.sandboxError(err, rerr)
		}
		plan = s.sandboxPlan(next)
	}
}

// maxSandboxTries is how often a sandbox is tried whose creation is in doubt.
const maxSandboxTries = 3

func (s *Worker) trySandbox(ctx context.Context, plan sandbox.Plan) (sandbox.Sandbox, error) {
	s.undo.push("remove sandbox", func(ctx context.Context) error { return sandbox.Remove(ctx, s.Client, plan) })
	return sandbox.Apply(ctx, s.Client, plan)
}

// sandboxError is the error of a sandbox that could not be made, and perhaps not
// be cleared up either.
func (s *Worker) sandboxError(err, cleanup error) error {
	out := &problem.Error{Kind: problem.Runtime, Object: "pod " + s.plan.ID.String(), Op: "create sandbox", Err: err, Hint: sandboxHint(err)}
	if image := sandboxImage(err); image != "" {
		out.Kind, out.Hint = problem.Image, sandboxImageHint(image, s.plan.Facts.Runtime)
	}
	if e, ok := err.(*problem.Error); ok {
		out.Op, out.Err = e.Op, e.Err
	}
	if cleanup != nil {
		out.Err = fmt.Errorf("%w; %w", out.Err, cleanup)
	}
	return out
}

// sandboxCause leaves out the pod and the step, which the event names already.
func sandboxCause(err error) error {
	if e, ok := err.(*problem.Error); ok {
		return e.Err
	}
	return err
}

// sandboxPlan is the plan of the sandbox, of a certain attempt.
func (s *Worker) sandboxPlan(attempt uint32) sandbox.Plan {
	plan := s.plan.Sandbox
	plan.Attempt = attempt
	plan.Config = proto.CloneOf(plan.Config)
	plan.Config.Metadata.Attempt = attempt
	plan.Config.Annotations[identity.AnnotationGeneration] = s.lock.Mine.String()
	return plan
}

// sandboxConfig is the config that the current sandbox was made with, which
// CreateContainer wants to see again.
func (s *Worker) sandboxConfig() *runtimeapi.PodSandboxConfig {
	sb := s.obs.Sandbox()
	config := s.sandboxPlan(sb.Attempt).Config
	config.Annotations[identity.AnnotationInvocation] = sb.Invocation
	if config.Annotations[identity.AnnotationGeneration] = sb.Generation; sb.Generation == "" {
		delete(config.Annotations, identity.AnnotationGeneration) // made by an older podrun
	}
	return config
}

// takeSandbox makes a new sandbox the current one.
func (s *Worker) takeSandbox(plan sandbox.Plan, made sandbox.Sandbox) {
	s.obs.Sandboxes = append([]lifecycle.Sandbox{{
		ID: made.ID, Pod: s.plan.ID, Attempt: plan.Attempt, Ready: true, CreatedAt: time.Now(),
		HostNetwork: plan.HostNetwork, IPs: made.IPs, Managed: true, Invocation: s.Invocation, Generation: s.lock.Mine.String(),
	}}, s.obs.Sandboxes...)
}

// makeHost makes what the pod needs on this host beside its sandbox.
func (s *Worker) makeHost(ctx context.Context) error {
	object := "pod " + s.plan.ID.String()
	s.undo.push("remove control group", s.removeGroups)
	if err := s.UnderNodeLock(ctx, func() error { return cgroup.Apply(ctx, s.plan.Cgroup) }); err != nil {
		return &problem.Error{Kind: problem.Runtime, Object: object, Op: "make control group", Err: err}
	}
	if err := s.makeVolumes(ctx); err != nil {
		s.emitMountErrors(err)
		return err
	}
	return nil
}

// emitMountErrors tells each volume that could not be made.
func (s *Worker) emitMountErrors(err error) {
	for _, e := range mountErrors(err) {
		s.emit(event.Warning, event.FailedMountVolume, "", e.Event())
	}
}

func mountErrors(err error) []*volume.MountError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*volume.MountError
		for _, e := range joined.Unwrap() {
			out = append(out, mountErrors(e)...)
		}
		return out
	}
	if e, ok := err.(*volume.MountError); ok {
		return []*volume.MountError{e}
	}
	if inner := errors.Unwrap(err); inner != nil {
		return mountErrors(inner)
	}
	return nil
}

// sandboxHint says what to do about a sandbox that could not be made, where the
// runtime's text is known to puzzle people.
func sandboxHint(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "expected cgroupsPath to be of format"):
		return "the runtime uses the systemd cgroup driver: give --cgroup-driver=systemd, or let the runtime use cgroupfs"
	case strings.Contains(text, "can't get final child's PID"):
		return "this process may not lower oom_score_adj: set restrict_oom_score_adj = true in containerd's CRI configuration"
	}
	return ""
}

// writeHosts writes the file that the containers see as /etc/hosts.
func (s *Worker) writeHosts(ips []string) error {
	text := dns.EtcHosts(s.pod(), s.plan.Name, ips, s.plan.EtcHosts)
	if err := volume.WriteHosts(s.plan.Layout, s.plan.ID.UID, []byte(text)); err != nil {
		return fmt.Errorf("pod %s: %w", s.plan.ID, err)
	}
	return nil
}
