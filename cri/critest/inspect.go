package critest

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Call is a recorded call.
type Call struct {
	Method string // such as "CreateContainer"
	// the name of the container or the image; "" for calls about other objects
	Subject string
	Request proto.Message
	// the error that the caller got; nil while the call is running
	Err error
	// End is zero while the call is running.
	Start, End time.Time
}

// Name returns a short form of the call, such as "CreateContainer app", "PullImage busybox".
func (c Call) Name() string {
	if c.Subject == "" {
		return c.Method
	}
	return c.Method + " " + c.Subject
}

// subject returns the name of the object of a request. The caller must hold rt.mu.
func (rt *Runtime) subject(req proto.Message) string {
	switch r := req.(type) {
	case *runtimeapi.CreateContainerRequest:
		return r.GetConfig().GetMetadata().GetName()
	case interface{ GetContainerId() string }:
		if c, err := rt.findContainer(r.GetContainerId()); err == nil {
			return c.config.GetMetadata().GetName()
		}
		return ""
	case interface{ GetImage() *runtimeapi.ImageSpec }:
		return r.GetImage().GetImage()
	}
	return ""
}

// Calls lists the calls in the order in which they began.
func (rt *Runtime) Calls() []Call {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var all []Call
	for _, c := range rt.calls {
		all = append(all, *c)
	}
	return all
}

// CallNames lists the names of the calls or, if methods are given, only of the calls of these
// methods.
func (rt *Runtime) CallNames(methods ...string) []string {
	var names []string
	for _, c := range rt.Calls() {
		if len(methods) == 0 || slices.Contains(methods, c.Method) {
			names = append(names, c.Name())
		}
	}
	return names
}

// Changes lists the names of calls that change something. It omits calls that only read,
// because their number depends on how often a caller polls.
func (rt *Runtime) Changes() []string {
	return rt.CallNames("RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer",
		"StopContainer", "RemoveContainer", "UpdateContainerResources", "ExecSync", "PullImage", "RemoveImage")
}

// ForgetCalls deletes the recorded calls.
func (rt *Runtime) ForgetCalls() {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.calls = nil
}

// Sandbox is a snapshot of a sandbox.
type Sandbox struct {
	ID        string
	Config    *runtimeapi.PodSandboxConfig
	Handler   string
	Ready     bool
	IPs       []string
	CreatedAt time.Time
}

// Sandboxes lists all sandboxes, oldest first.
func (rt *Runtime) Sandboxes() []Sandbox {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var all []Sandbox
	for _, s := range rt.sandboxes {
		snapshot := Sandbox{ID: s.id, Config: proto.CloneOf(s.config), Handler: s.handler, Ready: s.ready, CreatedAt: time.Unix(0, s.createdAt)}
		for _, ip := range s.ips {
			snapshot.IPs = append(snapshot.IPs, ip.String())
		}
		all = append(all, snapshot)
	}
	slices.SortFunc(all, func(a, b Sandbox) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all
}

// Container is a snapshot of a container.
type Container struct {
	ID, SandboxID, Name string
	Config              *runtimeapi.ContainerConfig
	State               runtimeapi.ContainerState
	ExitCode            int32
	Reason              string
	// Resources are the resources in the config or in the last update.
	Resources *runtimeapi.LinuxContainerResources
	// each is zero if its event has not happened yet
	CreatedAt, StartedAt, FinishedAt time.Time
}

// Containers lists all containers, oldest first.
func (rt *Runtime) Containers() []Container {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var all []Container
	for _, c := range rt.containers {
		all = append(all, Container{
			ID: c.id, SandboxID: c.sandbox.id, Name: c.config.GetMetadata().GetName(), Config: proto.CloneOf(c.config),
			State: c.state, ExitCode: c.exit.code, Reason: c.exit.reason, Resources: proto.CloneOf(c.resources),
			CreatedAt: moment(c.createdAt), StartedAt: moment(c.startedAt), FinishedAt: moment(c.finishedAt),
		})
	}
	slices.SortFunc(all, func(a, b Container) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all
}

func moment(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// Container finds the newest container with the given name. It returns false if there is none.
func (rt *Runtime) Container(name string) (Container, bool) {
	all := rt.Containers()
	for _, c := range slices.Backward(all) {
		if c.Name == name {
			return c, true
		}
	}
	return Container{}, false
}

// Leaked lists the sandboxes and containers that still have records. Tests use it to check that
// everything was removed.
func (rt *Runtime) Leaked() []string {
	var left []string
	for _, s := range rt.Sandboxes() {
		left = append(left, fmt.Sprintf("sandbox %s (%s, ready %v)", s.Config.GetMetadata().GetName(), s.ID[:12], s.Ready))
	}
	for _, c := range rt.Containers() {
		left = append(left, fmt.Sprintf("container %s (%s, %s)", c.Name, c.ID[:12], c.State))
	}
	return left
}

// Exit makes the running containers with the given name (as in Script) exit, and waits until
// they have exited. It fails if none is running.
func (rt *Runtime) Exit(name string, code int32) error {
	var ended []*process
	rt.mu.Lock()
	for _, c := range rt.containers {
		if c.state == runtimeapi.ContainerState_CONTAINER_RUNNING && slices.Contains(c.keys(), name) {
			c.process.end(exited(code))
			ended = append(ended, c.process)
		}
	}
	rt.mu.Unlock()
	for _, p := range ended {
		<-p.done
	}
	if len(ended) == 0 {
		return fmt.Errorf("no container %s is running", name)
	}
	return nil
}

// Restart simulates a reboot of the host. Every sandbox becomes NOTREADY, and all running
// containers exit with code 255 and reason Unknown. The records remain.
func (rt *Runtime) Restart() {
	var ended []*process
	rt.mu.Lock()
	for _, c := range rt.containers {
		if c.state == runtimeapi.ContainerState_CONTAINER_RUNNING {
			c.process.end(exit{code: 255, reason: "Unknown"})
			ended = append(ended, c.process)
		}
	}
	for _, s := range rt.sandboxes {
		s.ready = false
		rt.addresses.free(s.ips)
		s.ips = nil
	}
	rt.mu.Unlock()
	for _, p := range ended {
		<-p.done
	}
}
