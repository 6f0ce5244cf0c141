package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// ReadPod reads the sandboxes and containers of the pod with this UID from the runtime, and the state
// of its hooks and probes from its directory. The files in the directory are optional. ReadPod treats
// a corrupt file as missing (Observed.Unreadable). The observation is never nil; if ReadPod returns
// an error, the observation is empty. The error is the runtime's, with its gRPC code and without the
// pod's name.
func ReadPod(ctx context.Context, client *cri.Client, layout identity.Layout, uid string) (*lifecycle.Observed, error) {
	labels := map[string]string{identity.LabelPodUID: uid}
	obs := &lifecycle.Observed{ReadAt: time.Now()}
	group, gctx := errgroup.WithContext(ctx)
	// the sandbox whose network this function reads concurrently with the containers
	read := ""
	group.Go(func() (err error) {
		if obs.Sandboxes, err = ReadSandboxes(gctx, client, layout, labels); err != nil {
			return err
		}
		listed := &lifecycle.Observed{Sandboxes: obs.Sandboxes}
		listed.Order()
		if s := listed.Sandbox(); s != nil {
			read, err = s.ID, readNetwork(gctx, client, s)
		}
		return err
	})
	group.Go(func() (err error) {
		obs.Containers, err = readContainers(gctx, client, labels)
		return err
	})
	if err := group.Wait(); err != nil {
		return &lifecycle.Observed{}, err
	}
	if err := addUnlisted(ctx, client, layout, obs); err != nil {
		return &lifecycle.Observed{}, err
	}
	obs.Order()
	if s := obs.Sandbox(); s != nil && s.ID != read {
		if err := readNetwork(ctx, client, s); err != nil {
			return &lifecycle.Observed{}, err
		}
	}
	state, errs := store.ReadPodState(layout, uid)
	obs.Kept = state.Kept
	obs.Probes = state.Probes
	obs.ProbedAt = state.ProbedAt
	obs.Resize = state.Resize
	var others [3]error
	obs.Hooks, others[0] = readHooks(layout, uid)
	obs.Restarted, others[1] = readRestarted(layout, uid)
	obs.PendingRestarts, others[2] = readPendingRestarts(layout, uid)
	obs.PutKept()
	obs.LoggedRuns = readLoggedRuns(layout, uid, obs)
	obs.ImageFailures = ReadImageFailures(layout, uid)
	obs.HostsLost = volume.HostsLost(layout, uid)
	id := identity.Pod{UID: uid}
	if s := obs.Sandbox(); s != nil {
		id = s.Pod
	}
	for _, err := range append(errs, others[:]...) {
		if err != nil {
			obs.Unreadable = append(obs.Unreadable, problem.Problem{Object: identity.ObjectName(id),
				Message: err.Error() + "; podrun ignores it", Warning: true})
		}
	}
	return obs, nil
}

// ReadSandboxes lists the sandboxes that have all of the given labels. If labels is nil, it lists all
// sandboxes. It does not set IPs and HostNetwork. The error is the runtime's.
func ReadSandboxes(ctx context.Context, client *cri.Client, layout identity.Layout, labels map[string]string) ([]lifecycle.Sandbox, error) {
	items, err := client.ListPodSandbox(ctx, labels)
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	out := make([]lifecycle.Sandbox, 0, len(items))
	for _, item := range items {
		out = append(out, sandboxOf(item, layout))
	}
	return out, nil
}

// addUnlisted adds sandboxes that observed containers refer to but that are missing from the list of
// sandboxes. The two lists are read at different times, so one may be outdated. Without this, podrun
// might never remove such a sandbox.
func addUnlisted(ctx context.Context, client *cri.Client, layout identity.Layout, obs *lifecycle.Observed) error {
	for _, c := range obs.Containers {
		if slices.ContainsFunc(obs.Sandboxes, func(s lifecycle.Sandbox) bool { return s.ID == c.SandboxID }) {
			continue
		}
		st, err := client.PodSandboxStatus(ctx, c.SandboxID)
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return fmt.Errorf("read sandbox %s: %w", ShortID(c.SandboxID), err)
		}
		obs.Sandboxes = append(obs.Sandboxes, sandboxOf(st, layout))
	}
	return nil
}

// described contains the methods that a listed sandbox and a sandbox's status have in common.
type described interface {
	GetId() string
	GetMetadata() *runtimeapi.PodSandboxMetadata
	GetState() runtimeapi.PodSandboxState
	GetCreatedAt() int64
	GetLabels() map[string]string
	GetAnnotations() map[string]string
	GetRuntimeHandler() string
}

func sandboxOf(item described, layout identity.Layout) lifecycle.Sandbox {
	m, annotations := item.GetMetadata(), item.GetAnnotations()
	ours, other := identity.Owner(annotations, layout.RootDir)
	return lifecycle.Sandbox{
		ID:         item.GetId(),
		Pod:        identity.Pod{Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid()},
		Attempt:    m.GetAttempt(),
		Ready:      item.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt:  time.Unix(0, item.GetCreatedAt()),
		Managed:    ours,
		RootDir:    other,
		Invocation: annotations[identity.AnnotationInvocation],
		Generation: annotations[identity.AnnotationGeneration],
		Labels:     item.GetLabels(),
		Handler:    item.GetRuntimeHandler(),
	}
}

// readNetwork sets the fields of a ready sandbox that only PodSandboxStatus returns: the network mode
// and the addresses. If the sandbox was removed after it was listed, readNetwork marks it as not
// ready.
func readNetwork(ctx context.Context, client *cri.Client, s *lifecycle.Sandbox) error {
	if !s.Ready {
		return nil
	}
	st, err := client.PodSandboxStatus(ctx, s.ID)
	if status.Code(err) == codes.NotFound {
		s.Ready = false
		return nil
	}
	if err != nil {
		return fmt.Errorf("read sandbox %s: %w", ShortID(s.ID), err)
	}
	s.HostNetwork = st.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	s.IPs = nil
	if ip := st.GetNetwork().GetIp(); ip != "" {
		s.IPs = append(s.IPs, ip)
	}
	for _, ip := range st.GetNetwork().GetAdditionalIps() {
		s.IPs = append(s.IPs, ip.Ip)
	}
	return nil
}

func readContainers(ctx context.Context, client *cri.Client, labels map[string]string) ([]lifecycle.Container, error) {
	items, err := client.ListContainers(ctx, labels)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	out := make([]lifecycle.Container, len(items))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, item := range items {
		group.Go(func() (err error) {
			out[i], err = ReadContainer(ctx, client, item.Id, item.PodSandboxId, true)
			if status.Code(err) == codes.NotFound {
				// containerd has its own record of a container, in addition to the CRI plugin's. If another
				// program removed containerd's record, containerd 1.6 and 1.7 respond only to the non-verbose
				// call. The kubelet makes only the non-verbose call, so it restarts such a container.
				out[i], err = ReadContainer(ctx, client, item.Id, item.PodSandboxId, false)
			}
			if status.Code(err) == codes.NotFound {
				return nil // removed after it was listed
			}
			return err
		})
	}
	err = group.Wait()
	return slices.DeleteFunc(out, func(c lifecycle.Container) bool { return c.ID == "" }), err
}

// TerminationLog returns the path, on this host, of the file for the termination message of a
// container with these mounts and annotations. It returns "" if the container has no such file.
func TerminationLog(mounts []*runtimeapi.Mount, annotations map[string]string) string {
	for _, m := range mounts {
		if m.GetContainerPath() == annotations[identity.AnnotationTerminationMessagePath] {
			return m.GetHostPath()
		}
	}
	return ""
}

// ReadContainer reads one container. If verbose is true, it also reads the pid of the container's
// process, which is much more expensive for the runtime. The error is the runtime's: NotFound if the
// container was removed.
func ReadContainer(ctx context.Context, client *cri.Client, id, sandboxID string, verbose bool) (lifecycle.Container, error) {
	resp, err := client.ContainerStatus(ctx, id, verbose)
	if err != nil {
		return lifecycle.Container{}, fmt.Errorf("read container %s: %w", ShortID(id), err)
	}
	st := resp.GetStatus()
	c := lifecycle.Container{
		ID:          id,
		Name:        st.GetLabels()[identity.LabelContainerName],
		SandboxID:   sandboxID,
		State:       stateOf(st.GetState()),
		Image:       st.GetImage().GetUserSpecifiedImage(),
		ImageID:     st.GetImageRef(),
		Hash:        st.GetAnnotations()[identity.AnnotationHash],
		CreatedAt:   unixNano(st.GetCreatedAt()),
		StartedAt:   unixNano(st.GetStartedAt()),
		FinishedAt:  unixNano(st.GetFinishedAt()),
		ExitCode:    st.GetExitCode(),
		Reason:      st.GetReason(),
		Message:     cri.CutEnvironment(st.GetMessage()),
		LogPath:     st.GetLogPath(),
		PID:         pidOf(resp.GetInfo()),
		User:        userOf(st.GetUser()),
		Actual:      actualOf(st.GetResources().GetLinux()),
		Annotations: st.GetAnnotations(),
	}
	c.ProcessExited = c.State == lifecycle.Running && c.PID > 0 && inHostPIDNamespace() && exitedPID(c.PID)
	if cri.StartCanceled(st) || cri.FailedWithoutSandboxPID(st) {
		// The container never ran, so its exit code does not show whether it must be restarted.
		c.State = lifecycle.Created
		c.FinishedAt = time.Time{}
		c.ExitCode = 0
		c.Reason = ""
		c.Message = ""
	}
	c.TerminationLog = TerminationLog(st.GetMounts(), c.Annotations)
	if c.Name == "" {
		c.Name = st.GetMetadata().GetName()
	}
	if c.Image == "" {
		c.Image = st.GetImage().GetImage()
	}
	if n, err := strconv.ParseUint(st.GetAnnotations()[identity.AnnotationRestartCount], 10, 32); err == nil {
		c.Restarts = uint32(n)
	}
	return c, nil
}

// userOf returns the identity of a container's first process; nil if the runtime does not report it.
func userOf(u *runtimeapi.ContainerUser) *corev1.ContainerUser {
	if u == nil {
		return nil
	}
	user := &corev1.ContainerUser{}
	if l := u.GetLinux(); l != nil {
		user.Linux = &corev1.LinuxContainerUser{UID: l.GetUid(), GID: l.GetGid(), SupplementalGroups: l.GetSupplementalGroups()}
	}
	return user
}

func actualOf(r *runtimeapi.LinuxContainerResources) *lifecycle.Actual {
	if r == nil {
		return nil
	}
	return &lifecycle.Actual{
		CPUShares:   r.GetCpuShares(),
		CPUQuota:    r.GetCpuQuota(),
		CPUPeriod:   r.GetCpuPeriod(),
		MemoryLimit: r.GetMemoryLimitInBytes(),
	}
}

func stateOf(s runtimeapi.ContainerState) lifecycle.State {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return lifecycle.Created
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return lifecycle.Running
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return lifecycle.Exited
	}
	return lifecycle.Unknown
}

// unixNano converts a time of the CRI; It returns the zero time if the event has not happened. For a
// container that exited before it was started, CRI-O reports Go's zero time, which is a negative
// number.
func unixNano(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// pidOf returns the process ID in a verbose status, or 0. containerd and CRI-O both report {"info":
// "{\"pid\": 123, …}"}.
func pidOf(info map[string]string) int {
	var v struct {
		PID int `json:"pid"`
	}
	if json.Unmarshal([]byte(info["info"]), &v) != nil {
		return 0
	}
	return v.PID
}

// ShortID truncates an ID to 13 characters for messages, as crictl does.
func ShortID(id string) string { return id[:min(13, len(id))] }
