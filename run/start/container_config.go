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
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// configs completes the configs of containers with values that are not known before podrun creates
// the containers.
type configs struct {
	pod   *pod.Pod
	lease *lease.Lease
}

// configOf completes the config of a container, and ensures that everything that podrun creates for
// the container's mounts and its log exists.
func (c configs) configOf(ctx context.Context, a lifecycle.Action, image imagepull.Result, mounted map[string]imagepull.Result) (*runtimeapi.ContainerConfig, error) {
	plan := c.pod.Plan.Container(a.Container)
	spec := lifecycle.FindContainer(c.pod.Spec(), a.Container).Container
	// Like the kubelet, podrun writes the hosts file before it checks whether the container may start.
	if err := c.writeHosts(ctx); err != nil {
		return nil, err
	}
	late, err := c.late(a, image)
	if err == nil {
		err = c.addVolumeValues(ctx, plan, spec, mounted, &late)
	}
	if err == nil {
		late.SubpathPaths, err = c.bindSubpaths(ctx, plan, spec, late)
	}
	if err != nil {
		return nil, err
	}
	config, err := plan.Config(late)
	if err != nil {
		return nil, err
	}
	if err := c.makeMounted(ctx, config); err != nil {
		return nil, err
	}
	if last := c.pod.Observed.Newest(a.Container); last != nil {
		config.Annotations[identity.AnnotationBackOff] = lifecycle.NextBackOff(last, container.Hash(spec), c.pod.RestartBackOff()).String()
	}
	config.Annotations[identity.AnnotationGeneration] = c.lease.Lock.Mine.String()
	return config, nil
}

// late computes the values that are still missing from the container's config.
func (c configs) late(a lifecycle.Action, image imagepull.Result) (container.Late, error) {
	uid := c.pod.Plan.ID.UID
	if err := volume.MakeContainerDir(c.pod.Plan.Layout, uid, a.Container); err != nil {
		return container.Late{}, err
	}
	// podrun verifies the user before it creates the log: as in the kubelet, a refused container
	// leaves no log behind.
	if err := c.pod.Plan.Container(a.Container).VerifyUser(image.UID, image.Username); err != nil {
		return container.Late{}, err
	}
	target, err := c.targetID(a.Container)
	if err != nil {
		return container.Late{}, err
	}
	var logs []string
	for _, run := range c.pod.Observed.Containers {
		logs = append(logs, run.TerminationLog)
	}
	if err := volume.PruneTerminationLogs(c.pod.Plan.Layout, uid, a.Container, logs); err != nil {
		return container.Late{}, err
	}
	log, err := volume.MakeTerminationLog(c.pod.Plan.Layout, uid, a.Container, store.RandomHex(4))
	if err != nil {
		return container.Late{}, err
	}
	variables, err := serviceEnv(c.pod.Plan.Layout, c.pod.Spec(), c.pod.Node.ClusterServices)
	if err != nil {
		return container.Late{}, err
	}
	return container.Late{
		ServiceEnv: variables,
		PodIPs:     lifecycle.OrderIPs(c.pod.Observed.Sandbox().IPs, c.pod.Plan.NodeIPs), HostIPs: c.pod.Plan.NodeIPs,
		ImageID: image.ImageID, ImageUID: image.UID, ImageUsername: image.Username,
		TargetID:           target,
		Attempt:            a.Attempt,
		TerminationLogPath: log,
		Mounts:             c.pod.Plan.Mounts(),
		EtcHostsPath:       c.pod.Plan.Layout.Pod(uid).EtcHosts(),
	}, nil
}

// targetID returns the ID of the container whose process namespace an ephemeral container shares. It
// returns "" if there is none. The error is the kubelet's (getTargetID in pkg/kubelet/kuberuntime).
func (c configs) targetID(name string) (string, error) {
	target := lifecycle.FindContainer(c.pod.Spec(), name).Target
	if target == "" {
		return "", nil
	}
	have := c.pod.Observed.Container(target)
	if have == nil {
		return "", fmt.Errorf("unable to find target container %s", target)
	}
	return have.ID, nil
}

// bindSubpaths bind-mounts the subPaths of the container's volume mounts.
func (c configs) bindSubpaths(ctx context.Context, plan *container.Plan, spec *corev1.Container, late container.Late) (map[int]string, error) {
	paths, err := plan.Subpaths(late)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	out := map[int]string{}
	for i, sub := range paths {
		mount := spec.VolumeMounts[i].Name
		if late.Mounts[mount].Image != nil {
			continue // the runtime resolves the subPath of this mount
		}
		target := c.pod.Plan.Layout.Pod(c.pod.Plan.ID.UID).Subpath(mount, spec.Name, i)
		if err := volume.MountSubpath(ctx, late.Mounts[mount].HostPath, sub, target); err != nil {
			return nil, subpathError(spec, i, err)
		}
		out[i] = target
	}
	return out, nil
}

// failedStep is a failed step of a container's start: op is the step's name in messages, event the reason of the
// event, and waiting the reason in the container's waiting state.
type failedStep struct{ op, event, waiting string }

var (
	stepConfig = failedStep{"create", event.FailedToCreate, lifecycle.CreateContainerConfigError}
	stepCreate = failedStep{"create", event.FailedToCreate, lifecycle.CreateContainerError}
	stepStart  = failedStep{"start", event.FailedToStart, lifecycle.RunContainerError}
)

// containerFailed reports and records that a container could not be created or started. It returns an
// error only if it was interrupted or cannot record the failure.
func (st *Starter) containerFailed(ctx context.Context, name string, step failedStep, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return st.interruptedError(cause, name, step.op, err)
	}
	failure := failureOf(st.pod, name, step, err)
	why := cause(failure)
	st.pod.Emit(event.Warning, step.event, name, "Error: "+why)
	st.fail(commandFailed(failure))
	return st.pod.KeepStartFailure(name, lifecycle.Waiting{Reason: step.waiting, Message: why}, cri.IsTransient(err))
}

// failureOf returns the error of a failed step, without the values of Secrets.
func failureOf(p *pod.Pod, name string, step failedStep, err error) *problem.Error {
	err = p.Redacted(name, err)
	failure := &problem.Error{Kind: problem.Runtime, Reason: step.waiting,
		Object: fmt.Sprintf("pod %s: container %s", p.Plan.ID, name), Op: step.op, Err: err}
	if e, ok := errors.AsType[*problem.Error](err); ok {
		failure.Kind = e.Kind
		failure.Err = e.Err
		failure.Problems = e.Problems
		failure.Hint = e.Hint
	}
	return failure
}

// If a container failed because its command could not be executed, commandFailed returns an error about the
// command. As in a shell, the exit code is 127 or 126.
func commandFailed(failure *problem.Error) *problem.Error {
	why, absent, ok := cri.CommandFailure(failure.Err)
	if !ok {
		return failure
	}
	failure.Kind = problem.NotExecutable
	failure.Err = fmt.Errorf("its command cannot be executed: %s", why)
	failure.Hint = "check the container's command and the file's mode"
	if absent {
		failure.Kind = problem.NotFound
		failure.Err = fmt.Errorf("its command was not found: %s", why)
		failure.Hint = "check the container's command, and that its image has the program"
	}
	return failure
}

// cause returns the text of an error as the kubelet shows it in events and statuses: without the object and the step,
// which events and statuses already name, and without the gRPC code.
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
