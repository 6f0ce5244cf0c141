package serve

import (
	"context"
	"time"

	"google.golang.org/grpc/metadata"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
)

// watch processes the runtime's events until ctx ends.
func (m *model) watch(ctx context.Context, rt *critest.Runtime) {
	_ = rt.GetContainerEvents(&runtimeapi.GetEventsRequest{}, &eventSink{ctx: ctx, send: m.event})
}

func (m *model) event(e *runtimeapi.ContainerEventResponse) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods[e.GetPodSandboxStatus().GetMetadata().GetName()] == nil {
		return
	}
	for _, c := range e.GetContainersStatuses() {
		if c.GetId() != e.GetContainerId() {
			continue
		}
		switch e.GetContainerEventType() {
		case runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
			m.started(c, e.GetPodSandboxStatus())
		case runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
			m.exited(c, e.GetPodSandboxStatus())
		}
	}
	if e.GetContainerId() == e.GetPodSandboxStatus().GetId() && e.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT {
		m.sandboxed(e.GetPodSandboxStatus())
	}
}

// sandboxed processes the creation of a sandbox, in which the pod starts again.
func (m *model) sandboxed(b *runtimeapi.PodSandboxStatus) {
	p := m.pods[b.GetMetadata().GetName()]
	m.sandboxes++
	if p.sandbox != "" && !m.allows(p, "sandbox") || !p.wanted {
		m.fail(p, "got sandbox %d for nothing", b.GetMetadata().GetAttempt())
	}
	if p.stopped {
		m.fail(p, "got a sandbox, but is stopped")
	}
	p.sandbox, p.grown = b.GetId(), false
	for name, r := range p.runs {
		// Init containers run first.
		if r.due = (time.Time{}); r.running {
			m.fail(p, "got sandbox %d while %s runs in another one", b.GetMetadata().GetAttempt(), name)
		}
		if b.GetMetadata().GetAttempt() == 0 {
			// Attempt 0 means that the pod is a new one, and that the run belongs to an earlier
			// pod.
			delete(p.runs, name)
		}
	}
}

// eventSink is the server's side of a stream of events.
type eventSink struct {
	ctx  context.Context
	send func(*runtimeapi.ContainerEventResponse)
}

func (s *eventSink) Send(e *runtimeapi.ContainerEventResponse) error { s.send(e); return nil }

func (s *eventSink) Context() context.Context { return s.ctx }

func (s *eventSink) SetHeader(metadata.MD) error { return nil }

func (s *eventSink) SendHeader(metadata.MD) error { return nil }

func (s *eventSink) SetTrailer(metadata.MD) {}

func (s *eventSink) SendMsg(any) error { return nil }

func (s *eventSink) RecvMsg(any) error { return nil }

// good reports whether the model has found no violation.
func (m *model) good() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.wrong) == 0
}

// state reports whether a pod has terminated, and whether its first app container is running
// and healthy.
func (m *model) state(p *modelPod) (over, healthy bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := p.runs["a0"]
	return p.over(), r != nil && r.running && p.sick.IsZero()
}

// fallSick makes a pod's liveness probe fail from now on.
func (m *model) fallSick(p *modelPod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.sick = m.now()
}
