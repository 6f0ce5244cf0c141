package start

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/container"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// configOf completes the config of a container.
func (w *Starter) configOf(ctx context.Context, a lifecycle.Action, image imagepull.Result, mounted map[string]imagepull.Result) (*runtimeapi.ContainerConfig, error) {
	if err := w.removeOld(ctx, a.Container); err != nil {
		return nil, err
	}
	plan := w.pod.Plan.Container(a.Container)
	spec := lifecycle.FindContainer(w.pod.Spec(), a.Container).Container
	late, err := w.late(a, image)
	if err == nil {
		err = w.lateVolumes(ctx, plan, spec, mounted, &late)
	}
	if err == nil {
		late.SubpathPaths, err = w.bindSubpaths(ctx, plan, spec, late)
	}
	if err != nil {
		return nil, err
	}
	config, err := plan.Config(late)
	if err != nil {
		return nil, err
	}
	if last := w.pod.Observed.Newest(a.Container); last != nil {
		config.Annotations[identity.AnnotationBackOff] = lifecycle.NextBackOff(last, container.Hash(spec), w.pod.RestartBackOff()).String()
	}
	config.Annotations[identity.AnnotationGeneration] = w.lease.Lock.Mine.String()
	return config, nil
}

// late computes the values that the container's config still lacks.
func (w *Starter) late(a lifecycle.Action, image imagepull.Result) (container.Late, error) {
	uid := w.pod.Plan.ID.UID
	if err := volume.MakeContainerDir(w.pod.Plan.Layout, uid, a.Container); err != nil {
		return container.Late{}, err
	}
	// Asked here, too: a container that is refused leaves no log, as in the kubelet.
	if err := w.pod.Plan.Container(a.Container).VerifyUser(image.UID, image.Username); err != nil {
		return container.Late{}, err
	}
	target, err := w.targetID(a.Container)
	if err != nil {
		return container.Late{}, err
	}
	var logs []string
	for _, c := range w.pod.Observed.Containers {
		logs = append(logs, c.TerminationLog)
	}
	if err := volume.PruneTerminationLogs(w.pod.Plan.Layout, uid, a.Container, logs); err != nil {
		return container.Late{}, err
	}
	log, err := volume.MakeTerminationLog(w.pod.Plan.Layout, uid, a.Container, store.RandomHex(4))
	if err != nil {
		return container.Late{}, err
	}
	return container.Late{
		PodIPs: lifecycle.OrderIPs(w.pod.Observed.Sandbox().IPs, w.pod.Plan.NodeIPs), HostIPs: w.pod.Plan.NodeIPs,
		ImageID: image.ImageID, ImageUID: image.UID, ImageUsername: image.Username,
		TargetID:           target,
		Attempt:            a.Attempt,
		TerminationLogPath: log,
		Mounts:             w.pod.Plan.Mounts(),
		EtcHostsPath:       w.pod.Plan.Layout.EtcHosts(uid),
	}, nil
}

// targetID is the ID of the container whose processes an ephemeral container sees;
// empty for none. The error is the kubelet's (getTargetID in pkg/kubelet/kuberuntime).
func (w *Starter) targetID(name string) (string, error) {
	target := lifecycle.FindContainer(w.pod.Spec(), name).Target
	if target == "" {
		return "", nil
	}
	have := w.pod.Observed.Container(target)
	if have == nil {
		return "", fmt.Errorf("unable to find target container %s", target)
	}
	return have.ID, nil
}

// bindSubpaths bind-mounts the subPaths of volumes that the container mounts.
func (w *Starter) bindSubpaths(ctx context.Context, plan *container.Plan, spec *corev1.Container, late container.Late) (map[int]string, error) {
	paths, err := plan.Subpaths(late)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	out := map[int]string{}
	for i, sub := range paths {
		mount := spec.VolumeMounts[i].Name
		if late.Mounts[mount].Image != nil {
			continue // the runtime finds it
		}
		target := w.pod.Plan.Layout.Subpath(w.pod.Plan.ID.UID, mount, spec.Name, i)
		if err := volume.MountSubpath(ctx, late.Mounts[mount].HostPath, sub, target); err != nil {
			return nil, subpathError(spec, i, err)
		}
		out[i] = target
	}
	return out, nil
}

// startStep is a step of a container's start: its name in messages, the reason of the
// event of its failure, and the reason for which the container then waits.
type failedStep struct{ op, event, waiting string }

var (
	stepConfig = failedStep{"create", event.FailedToCreate, lifecycle.CreateContainerConfigError}
	stepCreate = failedStep{"create", event.FailedToCreate, lifecycle.CreateContainerError}
	stepStart  = failedStep{"start", event.FailedToStart, lifecycle.RunContainerError}
)

// containerFailed notes and records a container that could not be created or started. Only
// an interruption, or that the failure cannot be recorded, is returned as an error.
func (w *Starter) containerFailed(ctx context.Context, name string, step failedStep, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return w.endedBy(cause, name, step.op, err)
	}
	err = w.pod.Redacted(name, err)
	failure := &problem.Error{Kind: problem.Runtime, Reason: step.waiting, Object: fmt.Sprintf("pod %s: container %s", w.pod.Plan.ID, name), Op: step.op, Err: err}
	if e, ok := errors.AsType[*problem.Error](err); ok {
		failure.Kind, failure.Err, failure.Problems, failure.Hint = e.Kind, e.Err, e.Problems, e.Hint
	}
	why := cause(failure)
	w.pod.Emit(event.Warning, step.event, name, "Error: "+why)
	w.fail(commandFailed(failure))
	return w.pod.KeepStartFailure(name, step.waiting, why)
}

// commandFailed is the failure of a container as an error of its command, if it is one:
// as a shell reports it, by code 127 or 126.
func commandFailed(failure *problem.Error) *problem.Error {
	why, absent, ok := cri.CommandFailure(failure.Err)
	if !ok {
		return failure
	}
	failure.Kind, failure.Err = problem.NotExecutable, fmt.Errorf("its command cannot be executed: %s", why)
	failure.Hint = "check the container's command and the file's mode"
	if absent {
		failure.Kind, failure.Err = problem.NotFound, fmt.Errorf("its command was not found: %s", why)
		failure.Hint = "check the container's command, and that its image has the program"
	}
	return failure
}

// cause is an error's text as the kubelet has it in its events and statuses: without the
// object and the step, which these name already, and without gRPC's code.
func cause(e *problem.Error) string {
	if e.Err == nil {
		var messages []string
		for _, p := range e.Problems {
			messages = append(messages, p.Message)
		}
		return strings.Join(messages, "; ")
	}
	text := e.Err.Error()
	if code, ok := strings.CutPrefix(text, "rpc error: code = "); ok {
		if _, message, ok := strings.Cut(code, " desc = "); ok {
			return message
		}
	}
	return text
}
