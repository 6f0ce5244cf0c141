package critest

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// container is the record of a container. The runtime's lock protects it.
type container struct {
	id, name string
	sandbox  *sandbox
	config   *runtimeapi.ContainerConfig
	image    *Image
	// resources from the config or from the last update
	resources *runtimeapi.LinuxContainerResources
	// nil if Status does not report the feature supplementalGroupsPolicy
	user *runtimeapi.ContainerUser

	state                            runtimeapi.ContainerState
	createdAt, startedAt, finishedAt int64
	exit                             exit
	process                          *process // nil until the container is started
	// program that CreateContainer has chosen if Profile.CreateRuns is set; otherwise nil
	run        program
	unstarted  bool // set by LeaveTask
	recordless bool // set by RemoveRecord
	log        *logFile
	// part of the verbose status. The first request stores it here, because it never changes, and waiting
	// commands poll it.
	info string
}

// exit describes how a process exited.
type exit struct {
	code    int32
	reason  string
	message string
}

func exited(code int32) exit {
	if code == 0 {
		return exit{reason: "Completed"}
	}
	return exit{code: code, reason: "Error"}
}

// CreateContainer implements the CRI.
func (rt *Runtime) CreateContainer(_ context.Context, r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	s, err := rt.findSandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, rt.options.profile.noSandbox(r.GetPodSandboxId())
	}
	if !s.ready && rt.options.profile.crio() {
		return nil, status.Error(codes.Unknown, "CreateContainer failed as the sandbox was stopped: "+s.id)
	}
	if !s.ready {
		return nil, status.Error(codes.NotFound, "failed to get sandbox container task: no running task found: task "+s.id+" not found: not found")
	}
	if r.GetConfig().GetMetadata() == nil {
		return nil, status.Error(codes.Unknown, "container config must include metadata")
	}
	m := r.GetConfig().GetMetadata()
	c := &container{sandbox: s, config: r.GetConfig(), state: runtimeapi.ContainerState_CONTAINER_CREATED}
	if c.resources = c.config.GetLinux().GetResources(); c.resources == nil {
		c.resources = &runtimeapi.LinuxContainerResources{}
	}
	c.name = strings.Join([]string{m.GetName(), s.config.GetMetadata().GetName(), s.config.GetMetadata().GetNamespace(),
		s.config.GetMetadata().GetUid(), strconv.Itoa(int(m.GetAttempt()))}, "_")
	if id, exists := rt.names[c.name]; exists && rt.options.profile.Repeats && rt.containers[id] != nil {
		return &runtimeapi.CreateContainerResponse{ContainerId: id}, nil
	}
	c.id = rt.newID(c.name)
	if err := rt.reserve(c.name, c.id); err != nil {
		return nil, status.Errorf(codes.Unknown, "failed to reserve container name %q: %v", c.name, err)
	}
	if c.image = rt.findImage(c.config.GetImage().GetImage()); c.image == nil {
		delete(rt.names, c.name)
		return nil, status.Errorf(codes.NotFound, "failed to resolve image %q: not found", c.config.GetImage().GetImage())
	}
	if err := rt.options.profile.uncreatable(c); err != nil {
		delete(rt.names, c.name)
		return nil, err
	}
	if rt.options.profile.CreateRuns {
		if c.run, err = rt.programOf(c); err != nil {
			delete(rt.names, c.name)
			return nil, status.Error(codes.Unknown, err.Error())
		}
	}
	if rt.options.features.GetSupplementalGroupsPolicy() {
		c.user = c.identity()
	}
	c.createdAt = rt.now()
	rt.containers[c.id] = c
	rt.announce(s, c.id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

// StartContainer implements the CRI. If the program of a container cannot be started, the call
// fails, and the container exits with reason StartError and code 128. If Profile.CreateRuns is set,
// CreateContainer fails instead.
func (rt *Runtime) StartContainer(_ context.Context, r *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c, err := rt.findContainer(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.state != runtimeapi.ContainerState_CONTAINER_CREATED {
		if rt.options.profile.crio() {
			state, _ := strings.CutPrefix(c.state.String(), "CONTAINER_")
			if state == "EXITED" {
				state = "STOPPED"
			}
			return nil, status.Errorf(codes.Unknown, "container %s is not in created state: %s", c.id, strings.ToLower(state))
		}
		return nil, status.Errorf(codes.Unknown, "failed to set starting state for container %q: container is in %s state", c.id, c.state)
	}
	if !c.sandbox.ready {
		return nil, status.Errorf(codes.Unknown, "sandbox container %q is not running", c.sandbox.id)
	}
	if err := rt.launch(c); err != nil {
		c.finishedAt = rt.now()
		c.state = runtimeapi.ContainerState_CONTAINER_EXITED
		c.exit = exit{code: 128, reason: "StartError", message: err.Error()}
		return nil, status.Error(codes.Unknown, err.Error())
	}
	c.state = runtimeapi.ContainerState_CONTAINER_RUNNING
	c.startedAt = rt.now()
	rt.announce(c.sandbox, c.id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtimeapi.StartContainerResponse{}, nil
}

// finished records the exit of a container's process.
func (rt *Runtime) finished(c *container, e exit) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c.state = runtimeapi.ContainerState_CONTAINER_EXITED
	c.exit = e
	c.finishedAt = rt.now()
	rt.announce(c.sandbox, c.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// StopContainer implements the CRI. It sends TERM, and KILL after the timeout.
func (rt *Runtime) StopContainer(ctx context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	rt.mu.Lock()
	c, err := rt.findContainer(r.GetContainerId())
	rt.mu.Unlock()
	if err != nil && rt.options.profile.crio() {
		return &runtimeapi.StopContainerResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := rt.stopContainer(ctx, c, time.Duration(r.GetTimeout())*time.Second); err != nil {
		return nil, err
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

func (rt *Runtime) stopContainer(ctx context.Context, c *container, grace time.Duration) error {
	rt.mu.Lock()
	p := c.process
	if c.stopsNothing() {
		p = nil
	}
	unstarted := p == nil && rt.options.profile.StopsCreated && c.state == runtimeapi.ContainerState_CONTAINER_CREATED
	rt.mu.Unlock()
	if unstarted {
		rt.finished(c, exit{code: 137, reason: "Error"})
	}
	if p == nil {
		return nil
	}
	if grace > 0 {
		p.signal()
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
	p.end(exit{code: 137, reason: "Error"})
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RemoveContainer implements the CRI. It kills a running container first. It is not an error if the
// container does not exist.
func (rt *Runtime) RemoveContainer(ctx context.Context, r *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	rt.mu.Lock()
	c, err := rt.findContainer(r.GetContainerId())
	rt.mu.Unlock()
	if err != nil {
		return &runtimeapi.RemoveContainerResponse{}, nil
	}
	if err := rt.removeContainer(ctx, c); err != nil {
		return nil, err
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

func (rt *Runtime) removeContainer(ctx context.Context, c *container) error {
	rt.mu.Lock()
	err := c.missing()
	rt.mu.Unlock()
	if err != nil {
		return err
	}
	grace := time.Duration(0)
	// If the sandbox is stopped, no container needs a grace period, because in CRI-O no container of a
	// stopped sandbox is running.
	if c.sandbox.ready {
		grace = rt.options.profile.stopGrace(ctx.Deadline())
	}
	if err := rt.stopContainer(ctx, c, grace); err != nil {
		return fmt.Errorf("failed to forcibly stop container %q: %w", c.id, err)
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if err := c.undeletable(); err != nil {
		return err
	}
	if _, there := rt.containers[c.id]; there {
		delete(rt.containers, c.id)
		delete(rt.names, c.name)
		delete(rt.created, c.id)
		rt.announce(c.sandbox, c.id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	}
	return nil
}

// findContainer finds a container by its ID or a prefix of it. The caller must hold rt.mu.
func (rt *Runtime) findContainer(id string) (*container, error) {
	if id == "" {
		return nil, status.Error(codes.Unknown, `an error occurred when try to find container "": Prefix can't be empty`)
	}
	if c, ok := unique(rt.containers, id); ok {
		return c, nil
	}
	if rt.options.profile.crio() {
		return nil, rt.options.profile.noContainer(id, "")
	}
	return nil, status.Errorf(codes.NotFound, "an error occurred when try to find container %q: not found", id)
}

// containersOf lists a sandbox's containers, oldest first.
func (rt *Runtime) containersOf(s *sandbox) []*container {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.members(s)
}

// logPath returns the path of the container's log, or "" if it has none.
func (c *container) logPath() string {
	if c.sandbox.config.GetLogDirectory() == "" || c.config.GetLogPath() == "" {
		return ""
	}
	return filepath.Join(c.sandbox.config.GetLogDirectory(), c.config.GetLogPath())
}
