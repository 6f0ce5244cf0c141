package critest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// testEvents follows the events of a container from its creation to its removal. containerd 1.6
// sends no events. Other listeners may receive some of the events of containerd 1.7.
func (s *suite) testEvents(t *testing.T) {
	p := s.pod(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	stream, err := s.Runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got, ended := receive(ctx, stream)
	// over reports whether the runtime sends no events: it is containerd 1.6, or CRI-O without enable_pod_events.
	over := func(err error) bool {
		return status.Code(err) == codes.Unimplemented && !s.second(t) || errors.Is(err, io.EOF) && s.cfg.Profile.NoEvents
	}
	// A stream does not report that it has begun, so the test creates containers until the first
	// event arrives.
	for i, begun := 0, false; !begun; i++ {
		first := p.create(t, p.container(fmt.Sprintf("first%d", i), "true"))
		select {
		case e := <-got:
			begun = e.GetContainerId() == first
		case err := <-ended:
			if over(err) {
				return
			}
			t.Fatalf("the stream ended before an event: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
	id := p.sh(t, "app", "sleep 1000")
	if err := s.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	want := []runtimeapi.ContainerEventType{
		runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
		runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT,
	}
	var seen []runtimeapi.ContainerEventType
	for len(seen) < len(want) {
		select {
		case e := <-got:
			if e.GetContainerId() == id {
				seen = append(seen, e.GetContainerEventType())
			}
		case err := <-ended:
			if over(err) {
				return
			}
			t.Fatalf("the stream ended after %v: %v", seen, err)
		}
	}
	if !slices.Equal(seen, want) {
		t.Errorf("events %v, want %v", seen, want)
	}
}

// receive receives events until the stream ends.
func receive(ctx context.Context, stream grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse]) (<-chan *runtimeapi.ContainerEventResponse, <-chan error) {
	got := make(chan *runtimeapi.ContainerEventResponse)
	ended := make(chan error, 1)
	go func() {
		for {
			e, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case got <- e:
			case <-ctx.Done():
			}
		}
	}()
	return got, ended
}

// second reports whether the version of the runtime is 2.x, as for containerd 2.
func (s *suite) second(t *testing.T) bool {
	t.Helper()
	v, err := s.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return strings.HasPrefix(strings.TrimPrefix(v.GetRuntimeVersion(), "v"), "2.")
}

// testRuntimeConfig requests the cgroup driver, which containerd reports since 2.0.
func (s *suite) testRuntimeConfig(t *testing.T) {
	config, err := s.RuntimeConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.second(t) && config.GetLinux() == nil {
		t.Error("containerd 2 does not report its cgroup driver")
	}
}
