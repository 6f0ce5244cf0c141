package critest

import (
	"context"
	"maps"
	"slices"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RemoveRecord removes containerd's record of a container, as `ctr containers rm` does. The CRI
// still lists the container, but can neither stop nor remove it. RemoveRecord returns false if there is no such
// container.
func (rt *Runtime) RemoveRecord(id string) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c, there := rt.containers[id]
	if there {
		c.recordless = true
	}
	return there
}

// Records lists the IDs of the records that clients have created and not removed.
func (rt *Runtime) Records() []string {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return slices.Sorted(maps.Keys(rt.created))
}

// missing returns containerd's error for a container whose record was removed. The caller must hold
// rt.mu.
func (c *container) missing() error {
	if !c.recordless {
		return nil
	}
	return status.Errorf(codes.NotFound, "get container info: container %q in namespace \"k8s.io\": not found", c.id)
}

// recordService implements those calls of containerd's own service for container records that
// podrun and the tests use.
type recordService struct {
	containersapi.UnimplementedContainersServer
	rt *Runtime
}

// Get reads a record.
func (s recordService) Get(ctx context.Context, r *containersapi.GetContainerRequest) (*containersapi.GetContainerResponse, error) {
	if err := inNamespace(ctx); err != nil {
		return nil, err
	}
	s.rt.mu.Lock()
	defer s.rt.mu.Unlock()
	if record, is := s.rt.created[r.GetID()]; is {
		return &containersapi.GetContainerResponse{Container: proto.CloneOf(record)}, nil
	}
	if !s.rt.recorded(r.GetID()) {
		return nil, noRecord(r.GetID())
	}
	return &containersapi.GetContainerResponse{Container: &containersapi.Container{ID: r.GetID()}}, nil
}

// List lists the records that clients created. It ignores filters.
func (s recordService) List(ctx context.Context, _ *containersapi.ListContainersRequest) (*containersapi.ListContainersResponse, error) {
	if err := inNamespace(ctx); err != nil {
		return nil, err
	}
	s.rt.mu.Lock()
	defer s.rt.mu.Unlock()
	resp := &containersapi.ListContainersResponse{}
	for _, id := range sortedKeys(s.rt.created) {
		resp.Containers = append(resp.Containers, proto.CloneOf(s.rt.created[id]))
	}
	return resp, nil
}

// Create creates a record.
func (s recordService) Create(ctx context.Context, r *containersapi.CreateContainerRequest) (*containersapi.CreateContainerResponse, error) {
	if err := inNamespace(ctx); err != nil {
		return nil, err
	}
	s.rt.mu.Lock()
	defer s.rt.mu.Unlock()
	record := proto.CloneOf(r.GetContainer())
	switch {
	case record.GetSpec() == nil:
		return nil, status.Error(codes.InvalidArgument, "create container failed validation: container.Spec must be set: invalid argument")
	case s.rt.created[record.GetID()] != nil || s.rt.recorded(record.GetID()):
		return nil, status.Errorf(codes.AlreadyExists, "container %q: already exists", record.GetID())
	}
	record.CreatedAt = timestamppb.New(time.Unix(0, s.rt.now()))
	if s.rt.created == nil {
		s.rt.created = map[string]*containersapi.Container{}
	}
	s.rt.created[record.GetID()] = record
	if c, there := s.rt.containers[record.GetID()]; there {
		c.recordless = false
	}
	return &containersapi.CreateContainerResponse{Container: record}, nil
}

// Delete removes a record, even if the container's task is running.
func (s recordService) Delete(ctx context.Context, r *containersapi.DeleteContainerRequest) (*emptypb.Empty, error) {
	if err := inNamespace(ctx); err != nil {
		return nil, err
	}
	s.rt.mu.Lock()
	defer s.rt.mu.Unlock()
	if s.rt.created[r.GetID()] == nil && !s.rt.recorded(r.GetID()) {
		return nil, noRecord(r.GetID())
	}
	delete(s.rt.created, r.GetID())
	if c, there := s.rt.containers[r.GetID()]; there {
		c.recordless = true
	}
	return &emptypb.Empty{}, nil
}

// recorded reports whether a sandbox or a container has a record. The caller must hold rt.mu.
func (rt *Runtime) recorded(id string) bool {
	c, is := rt.containers[id]
	_, sandbox := rt.sandboxes[id]
	return sandbox || is && !c.recordless
}

func noRecord(id string) error {
	return status.Errorf(codes.NotFound, "container %q in namespace \"k8s.io\": not found", id)
}

// inNamespace requires that a call names the namespace of the CRI, as containerd's own services
// do.
func inNamespace(ctx context.Context) error {
	if in, ok := metadata.FromIncomingContext(ctx); !ok || !slices.Equal(in.Get("containerd-namespace"), []string{"k8s.io"}) {
		return status.Error(codes.FailedPrecondition, "namespace is required: failed precondition")
	}
	return nil
}

// stopsNothing reports whether StopContainer has no effect, because the container has no record, by
// which containerd finds its task.
func (c *container) stopsNothing() bool {
	return c.recordless && c.state == runtimeapi.ContainerState_CONTAINER_RUNNING
}
