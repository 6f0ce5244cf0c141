package start

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/container"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/stop"
)

// Ahead creates containers before their turn, one at a time. Only the process that created such a
// container starts it. Any other process removes the container and recreates it.
type Ahead struct {
	pod     *pod.Pod
	lease   *lease.Lease
	stop    *stop.Stopper
	images  *Images
	volumes *Volumes
	configs configs
	// sandboxConfig returns the config of the pod's current sandbox.
	sandboxConfig func() *runtimeapi.PodSandboxConfig
	pending       *createdAhead   // nil if no container was created before its turn
	failed        map[string]bool // the containers that podrun failed to create before their turn
}

// createdAhead is a container that is created before its turn, with the inputs of its creation. If
// any of these inputs has changed when the container's turn comes, podrun recreates the container.
type createdAhead struct {
	starting
	plan       *prepare.Plan
	generation string
	sandboxID  string

	done     chan struct{} // closed when created.ID or err is set
	observed bool          // true if Observed already contains the container
}

// dropTimeout limits the removal of a container whose turn did not come. If the removal fails, the next
// start of the container repeats the removal.
const dropTimeout = 2 * time.Second

// ID returns the ID of an init container that was created before its turn; or "" if there is none.
func (h *Ahead) ID() string {
	if h.pending == nil || !h.pending.observed {
		return ""
	}
	return h.pending.created.ID
}

// Can reports whether podrun can create the container name during the turn of another one. The
// container must never have been created, its image must be available, and no earlier attempt may have
// failed. No other container that was created before its turn may be waiting for its turn.
func (h *Ahead) Can(turn, name string) bool {
	_, present := h.images.Waiter.present(name)
	free := h.pending == nil || h.pending.action.Container == turn
	return present && free && !h.failed[name] && h.volumes.made && h.pod.Observed.Newest(name) == nil
}

// Create creates an init container while the previous one runs. It does not report a failure, because
// podrun retries the creation when the container's turn comes.
func (h *Ahead) Create(ctx context.Context, a lifecycle.Action) error {
	if !h.begin(ctx, a) {
		h.failed[a.Container] = true
		return nil
	}
	h.await()
	if h.pending.err != nil {
		h.pending = nil
		return context.Cause(ctx)
	}
	h.observe()
	return nil
}

// Remove removes an init container that was created while the previous one ran.
func (h *Ahead) Remove(ctx context.Context, a lifecycle.Action) error {
	if a.ID == h.ID() {
		h.pending = nil
	}
	if err := h.stop.RemoveUnstarted(ctx, a.Container, a.ID); err != nil {
		return pod.RuntimeError(h.pod.Plan.ID, err)
	}
	return nil
}

// Drop removes an app container whose turn did not come because an error, or the end of ctx, ended the
// pass. The removal does not depend on ctx.
func (h *Ahead) Drop(ctx context.Context) {
	c := h.pending
	if c == nil || c.observed {
		return
	}
	h.await()
	if c.err == nil {
		h.observe()
		ctx, cancel := wait.CleanupContext(ctx, dropTimeout)
		defer cancel()
		_ = h.stop.RemoveUnstarted(ctx, c.action.Container, c.created.ID) // the next start of the container repeats the removal
	}
	h.pending = nil
}

// begin starts to create a container, and returns while the runtime is still creating it. It returns
// false if podrun cannot create the container now.
func (h *Ahead) begin(ctx context.Context, a lifecycle.Action) bool {
	image, present := h.images.Waiter.present(a.Container)
	sb := h.pod.Observed.Sandbox()
	if !present || sb == nil || !sb.Ready || h.pending != nil {
		return false
	}
	c := &createdAhead{
		starting:   starting{action: a, image: image},
		plan:       h.pod.Plan,
		generation: h.generation(),
		sandboxID:  sb.ID,
		done:       make(chan struct{}),
	}
	h.pending = c
	if c.config, c.err = h.configs.configOf(ctx, a, image, nil); c.err != nil {
		close(c.done)
		return true
	}
	sandboxConfig := h.sandboxConfig()
	go func() {
		defer close(c.done)
		c.created.ID, c.err = container.Apply(ctx, h.pod.Node.Client, sb.ID, c.config, sandboxConfig)
	}()
	return true
}

func (h *Ahead) generation() string { return h.lease.Lock.Mine.String() }

// await waits until the runtime has created the container or has failed to create it.
func (h *Ahead) await() {
	<-h.pending.done
	if h.pending.err != nil {
		h.failed[h.pending.action.Container] = true
	}
}

// observe adds the created container to the observation.
func (h *Ahead) observe() {
	h.pending.observed = true
	h.pod.Observed.Put(h.pending.asCreated(h.pod, h.pending.sandboxID))
}

// take adds to s the container that podrun created before its turn, and reports whether the container
// exists and can be started. If it exists but cannot be started, take adds it to the observation, so
// that podrun removes it before it recreates the container.
func (h *Ahead) take(s *starting) bool {
	c := h.pending
	if c == nil || c.action.Container != s.action.Container {
		return false
	}
	h.await()
	defer func() { h.pending = nil }()
	if c.err != nil {
		return false
	}
	if !c.observed {
		h.observe()
	}
	have, sb := h.pod.Observed.Container(s.action.Container), h.pod.Observed.Sandbox()
	same := c.action.Attempt == s.action.Attempt && c.image.ImageID == s.image.ImageID && c.plan == h.pod.Plan && c.generation == h.generation() && c.sandboxID == sb.ID
	if have == nil || have.ID != c.created.ID || have.State != lifecycle.Created || !same {
		return false
	}
	s.config = c.config
	s.created.ID = c.created.ID
	return true
}
