package observe

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/wait"
)

// follow uses the runtime's events as hints, if the runtime sends events. For a container that has
// no process on this host, such as a container in a virtual machine, only events announce the exit.
func (h *Hub) follow(ctx context.Context) {
	for {
		err := h.client.ContainerEvents(ctx, h.hint)
		if status.Code(err) == codes.Unimplemented || wait.Sleep(ctx, slowestRetry) != nil {
			return
		}
	}
}

// hint makes the worker of a pod observe it, because one of its containers has stopped or was
// removed.
func (h *Hub) hint(e *runtimeapi.ContainerEventResponse) {
	if t := e.GetContainerEventType(); t != runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT && t != runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT {
		return
	}
	uid := e.GetPodSandboxStatus().GetMetadata().GetUid()
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watches {
		if w.uid == uid && w.known != nil {
			w.known = nil
			w.stale = true
			w.news.Send()
		}
	}
}

// Relist makes the hub list the runtime's pods now.
func (h *Hub) Relist() { h.kick.Send() }

// list reads the states of all sandboxes and containers, by pod UID.
func (h *Hub) list(ctx context.Context) (map[string]states, error) {
	begun := time.Now()
	sandboxes, err := h.client.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, err
	}
	containers, err := h.client.ListContainers(ctx, nil)
	if err != nil {
		return nil, err
	}
	var ready []identity.Pod
	found := make([]Listed, 0, len(containers))
	out := map[string]states{}
	of := func(uid string) states {
		if out[uid] == nil {
			out[uid] = states{}
		}
		return out[uid]
	}
	for _, s := range sandboxes {
		if m := s.GetMetadata(); s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			ready = append(ready, identity.Pod{Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid()})
		}
		of(s.GetMetadata().GetUid())[s.Id] = sandboxState(s.State == runtimeapi.PodSandboxState_SANDBOX_READY)
	}
	for _, c := range containers {
		of(c.Labels[identity.LabelPodUID])[c.Id] = string(stateOf(c.State))
		found = append(found, Listed{
			State: stateOf(c.State),
			Running: Running{ID: c.Id, Attempt: c.GetMetadata().GetAttempt(), Container: c.Labels[identity.LabelContainerName],
				Pod: identity.Pod{
					Namespace: c.Labels[identity.LabelPodNamespace],
					Name:      c.Labels[identity.LabelPodName],
					UID:       c.Labels[identity.LabelPodUID],
				}},
		})
	}
	h.note(begun, found, ready)
	return out, nil
}

// take compares a list with the states that the waiting workers have observed, and reports whether
// the hub should list the pods again soon.
func (h *Hub) take(listed map[string]states) (soon bool) {
	soon, down := h.compare(listed)
	if !down.IsZero() && h.Report != nil {
		// h.mu must not be held during this call, because writing to stderr may block.
		h.Report(down)
	}
	return soon
}

// compare implements take, except that it does not call Report. If the runtime has become available
// again, down is the time at which it had become unavailable. Otherwise, down is zero.
func (h *Hub) compare(listed map[string]states) (soon bool, down time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	down = h.down
	back := !down.IsZero()
	if back {
		h.down = time.Time{}
		close(h.up)
	}
	for w := range h.watches {
		if w.known == nil {
			continue
		}
		if w.unwatched > 0 {
			soon = true
		}
		if back || !w.known.equal(listed[w.uid]) {
			w.known = nil
			w.stale = true
			soon = true
			w.news.Send()
		}
	}
	return soon || back, down
}
