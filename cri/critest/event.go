package critest

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/wait"
)

// listener is one reader of the event stream. The runtime's lock protects it.
type listener struct {
	waiting []*runtimeapi.ContainerEventResponse
	wake    wait.Signal
	ended   bool
}

func (l *listener) close() {
	l.ended = true
	l.wake.Send()
}

// announce sends an event to every listener. The caller must hold rt.mu.
func (rt *Runtime) announce(s *sandbox, id string, kind runtimeapi.ContainerEventType) {
	if len(rt.listeners) == 0 {
		return
	}
	e := &runtimeapi.ContainerEventResponse{ContainerId: id, ContainerEventType: kind, CreatedAt: rt.now(), PodSandboxStatus: s.status()}
	for _, c := range rt.members(s) {
		e.ContainersStatuses = append(e.ContainersStatuses, c.status())
	}
	for l := range rt.listeners {
		l.waiting = append(l.waiting, e)
		l.wake.Send()
	}
}

// GetContainerEvents implements the CRI. It streams all events that occur after the call.
func (rt *Runtime) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	if rt.options.noEvents {
		return status.Error(codes.Unimplemented, "method GetContainerEvents not implemented")
	}
	if rt.options.profile.NoEvents {
		return nil // This is CRI-O without enable_pod_events.
	}
	l := &listener{wake: wait.NewSignal()}
	rt.mu.Lock()
	if rt.closed {
		rt.mu.Unlock()
		return status.Error(codes.Unavailable, "the runtime is closed")
	}
	rt.listeners[l] = true
	rt.mu.Unlock()
	defer func() {
		rt.mu.Lock()
		delete(rt.listeners, l)
		rt.mu.Unlock()
	}()
	for {
		select {
		case <-l.wake:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
		rt.mu.Lock()
		events, ended := l.waiting, l.ended
		l.waiting = nil
		rt.mu.Unlock()
		for _, e := range events {
			if err := stream.Send(e); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
}
