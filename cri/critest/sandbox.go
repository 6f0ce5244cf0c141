package critest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is the record of a sandbox. The runtime's lock protects it.
type sandbox struct {
	id, name  string
	config    *runtimeapi.PodSandboxConfig
	handler   string
	ready     bool
	createdAt int64
	ips       []netip.Addr
	// IPs of a stopped sandbox, if the sandbox's status includes them
	lastIPs []netip.Addr
}

func sandboxName(m *runtimeapi.PodSandboxMetadata) string {
	return strings.Join([]string{m.GetName(), m.GetNamespace(), m.GetUid(), strconv.Itoa(int(m.GetAttempt()))}, "_")
}

// RunPodSandbox implements the CRI.
func (rt *Runtime) RunPodSandbox(_ context.Context, r *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if r.GetConfig().GetMetadata() == nil {
		return nil, status.Error(codes.Unknown, "sandbox config must include metadata")
	}
	s := &sandbox{name: sandboxName(r.GetConfig().GetMetadata()), config: r.GetConfig(), handler: r.GetRuntimeHandler(), ready: true}
	if err := rt.knowsHandler(s.handler); err != nil {
		return nil, err
	}
	if id, exists := rt.names[s.name]; exists && rt.options.profile.Repeats && rt.sandboxes[id] != nil {
		return &runtimeapi.RunPodSandboxResponse{PodSandboxId: id}, nil
	}
	s.id = rt.newID(s.name)
	if err := rt.reserve(s.name, s.id); err != nil {
		return nil, status.Errorf(codes.Unknown, "failed to reserve sandbox name %q: %v", s.name, err)
	}
	if !s.hostNetwork() {
		s.ips = rt.addresses.take()
	}
	s.createdAt = rt.now()
	rt.sandboxes[s.id] = s
	rt.announce(s, s.id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	rt.announce(s, s.id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: s.id}, nil
}

func (rt *Runtime) knowsHandler(name string) error {
	known := slices.ContainsFunc(rt.options.handlers, func(h *runtimeapi.RuntimeHandler) bool { return h.GetName() == name })
	if name == "" || name == "runc" || known {
		return nil
	}
	return status.Errorf(codes.Unknown, "failed to get sandbox runtime: no runtime for %q is configured", name)
}

func (s *sandbox) namespaces() *runtimeapi.NamespaceOption {
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions()
}

func (s *sandbox) hostNetwork() bool {
	return s.namespaces().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

// StopPodSandbox implements the CRI. It kills the containers of the sandbox or, if
// Profile.WaitsForTERM is set, stops them.
func (rt *Runtime) StopPodSandbox(ctx context.Context, r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	rt.mu.Lock()
	s, err := rt.findSandbox(r.GetPodSandboxId())
	rt.mu.Unlock()
	if err != nil && rt.options.profile.crio() {
		return &runtimeapi.StopPodSandboxResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := rt.stopSandbox(ctx, s); err != nil {
		return nil, err
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

func (rt *Runtime) stopSandbox(ctx context.Context, s *sandbox) error {
	grace := rt.options.profile.stopGrace(ctx.Deadline())
	var all errgroup.Group
	if !rt.options.profile.WaitsForTERM {
		all.SetLimit(1)
	}
	for _, c := range rt.containersOf(s) {
		all.Go(func() error {
			if err := rt.stopContainer(ctx, c, grace); err != nil {
				return fmt.Errorf("failed to stop container %q: %w", c.id, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if s.ready {
		s.ready = false
		rt.addresses.free(s.ips)
		if rt.options.profile.KeepsIPs {
			s.lastIPs = s.ips
		}
		s.ips = nil
		rt.announce(s, s.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
	return nil
}

// RemovePodSandbox implements the CRI. It also kills and removes the containers.
func (rt *Runtime) RemovePodSandbox(ctx context.Context, r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	rt.mu.Lock()
	s, err := rt.findSandbox(r.GetPodSandboxId())
	rt.mu.Unlock()
	if err != nil {
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	}
	if err := rt.stopSandbox(ctx, s); err != nil {
		return nil, fmt.Errorf("failed to forcibly stop sandbox %q: %w", s.id, err)
	}
	for _, c := range rt.containersOf(s) {
		if err := rt.removeContainer(ctx, c); err != nil {
			return nil, fmt.Errorf("failed to remove container %q: %w", c.id, err)
		}
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if _, there := rt.sandboxes[s.id]; there {
		delete(rt.sandboxes, s.id)
		delete(rt.names, s.name)
		rt.announce(s, s.id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	}
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus implements the CRI.
func (rt *Runtime) PodSandboxStatus(_ context.Context, r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	s, err := rt.findSandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	resp := &runtimeapi.PodSandboxStatusResponse{Status: s.status()}
	if r.GetVerbose() {
		resp.Info = map[string]string{"info": fmt.Sprintf(`{"pid":0,"processStatus":"running","runtimeHandler":%q}`, s.handler)}
	}
	return resp, nil
}

func (s *sandbox) state() runtimeapi.PodSandboxState {
	if s.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

func (s *sandbox) status() *runtimeapi.PodSandboxStatus {
	st := &runtimeapi.PodSandboxStatus{
		Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.createdAt,
		Network: &runtimeapi.PodSandboxNetworkStatus{},
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: &runtimeapi.NamespaceOption{
				Network: s.namespaces().GetNetwork(), Pid: s.namespaces().GetPid(), Ipc: s.namespaces().GetIpc(), UsernsOptions: s.namespaces().GetUsernsOptions(),
			},
		}},
		Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(), RuntimeHandler: s.handler,
	}
	for i, ip := range append(s.ips[:len(s.ips):len(s.ips)], s.lastIPs...) {
		if i == 0 {
			st.Network.Ip = ip.String()
		} else {
			st.Network.AdditionalIps = append(st.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip.String()})
		}
	}
	return st
}

// findSandbox finds a sandbox by its ID or a prefix of it. The caller must hold rt.mu.
func (rt *Runtime) findSandbox(id string) (*sandbox, error) {
	if s, ok := unique(rt.sandboxes, id); ok {
		return s, nil
	}
	if rt.options.profile.crio() {
		return nil, status.Errorf(codes.NotFound, "could not find pod %q: PodSandbox with ID starting with %s not found: ID does not exist", id, id)
	}
	return nil, status.Errorf(codes.NotFound, "an error occurred when try to find sandbox %q: not found", id)
}
