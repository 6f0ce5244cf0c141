package probe

import (
	"context"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/event"
)

// parallel is the maximum number of concurrent probes of a pod.
const parallel = 16

// Options are the settings of a Prober: how it reaches containers and reports results.
type Options struct {
	// Exec runs the commands of exec probes. Its context cancels a running command.
	Exec Exec
	// Emit receives the kubelet's Unhealthy and ProbeWarning events. It may be nil.
	Emit event.Sink
	// Report is called when the value of a probe changes. If ok is true, a startup or readiness probe has
	// succeeded. Otherwise a readiness probe has failed, or podrun must kill the container because a startup or
	// liveness probe has failed. The argument message describes the kill, or is the output of the failed
	// readiness probe. Results already includes the change. Several goroutines call Report. It must not block for
	// long, and must not call Stop. It may be nil.
	Report func(containerID string, kind Kind, ok bool, message string)
	// Probed receives the outcome of each probe. Results already includes the effect of the
	// outcome. Several goroutines call it. It must not block. It may be nil.
	Probed func(Plan, Outcome)
	// Owned reports whether the caller still owns the pod. If it returns false, the probe does not
	// run. The container is then not probed until Set has removed it and added it again. Several
	// goroutines call Owned. If it is nil, the caller always owns the pod.
	Owned func() bool
	// Settle is the minimum time between a container's start and its first probe, even if
	// initialDelaySeconds is less. Zero means no minimum. It is necessary because a kubelet detects
	// that a container is running only at its next poll of the runtime, up to 1 s later. Without
	// Settle, podrun would kill a container that does not open its port within its first
	// milliseconds, although the container would survive under the kubelet.
	Settle time.Duration
}

// Container is a running container to probe.
type Container struct {
	ID string
	// true for an init container, which is a sidecar
	Init      bool
	StartedAt time.Time
	// the pod's IP, or the host's if the pod uses the host's network
	PodIP string
	Plans []Plan // the plans of the probes; see All
	// WasStarted and WasReady are the results of an earlier process, with which the probes begin.
	// If a startup probe has succeeded, it does not run again (KEP-4781: a restart of the kubelet
	// does not change the results).
	WasStarted, WasReady bool
}

// initial returns a probe's state before this process has probed the container.
func (c Container) initial(p Plan) State {
	switch {
	case p.Kind == Startup && c.WasStarted:
		return State{Value: Success, Done: true}
	case p.Kind == Readiness && c.WasReady:
		return State{Value: Success}
	}
	return p.Initial()
}

// Kill is a request to kill a container.
type Kill struct {
	Kind Kind
	// Message is the kubelet's "Container app failed liveness probe". The caller appends ", will be
	// restarted" if the container will be restarted. For a sidecar, it is "Init container app
	// failed liveness probe", and the caller appends nothing.
	Message string
	// replaces the pod's grace period; nil keeps it
	GraceSeconds *int64
}

// Results contains the probe results of the watched containers, by container ID. A container
// without a startup probe counts as started. A started container without a readiness probe counts
// as ready.
type Results struct {
	Started, Ready map[string]bool
	Kill           map[string]Kill // the containers to kill
}

// Prober probes the running containers of one pod until it is stopped. It is safe for
// concurrent use.
type Prober struct {
	options Options
	slots   chan struct{}
	workers sync.WaitGroup

	mu      sync.Mutex
	watched map[string]*watched
	stopped bool
}

// watched is a container that a Prober is probing. The prober's lock guards its results. A worker
// whose context has ended must not change them.
type watched struct {
	Container
	states  map[Kind]State
	started chan struct{}      // closed when the container has started
	stop    context.CancelFunc // ends all workers of the container
}

// NewProber returns a prober that watches no containers yet.
func NewProber(o Options) *Prober {
	return &Prober{options: o, slots: make(chan struct{}, parallel), watched: map[string]*watched{}}
}

// Set sets the list of running containers. It starts to probe containers that are new in the list,
// continues to probe the others, and cancels the probes of containers that are no longer in the
// list. A container keeps the plans with which it was first set.
func (p *Prober) Set(containers []Container) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	gone := p.watched
	p.watched = make(map[string]*watched, len(containers))
	for _, c := range containers {
		w, ok := gone[c.ID]
		if !ok {
			w = p.watch(c)
		}
		delete(gone, c.ID)
		p.watched[c.ID] = w
	}
	for _, w := range gone {
		w.stop()
	}
}

// watch starts a container's workers. The caller must hold the lock.
func (p *Prober) watch(c Container) *watched {
	w := &watched{Container: c, states: map[Kind]State{}, started: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	for _, plan := range c.Plans {
		w.states[plan.Kind] = c.initial(plan)
	}
	if w.passed(Startup) {
		close(w.started)
	}
	for _, plan := range c.Plans {
		p.workers.Go(func() { p.work(ctx, w, plan) })
	}
	return w
}

// set records a probe's state, and closes started when the startup probe has succeeded. The caller must hold the
// prober's lock.
func (w *watched) set(kind Kind, s State) {
	passed := kind == Startup && s.Value == Success && w.states[kind].Value != Success
	w.states[kind] = s
	if passed {
		close(w.started)
	}
}

// Stop cancels all probes and waits until they have ended. Results remain available.
func (p *Prober) Stop() {
	p.mu.Lock()
	p.stopped = true
	for _, w := range p.watched {
		w.stop()
	}
	p.mu.Unlock()
	p.workers.Wait()
}

// Alive reports whether the last liveness probe of each watched container succeeded. Known is false if one has not returned a
// result yet. In contrast to Results, a single failure counts, below the failure threshold, too. A nil Prober has no containers.
func (p *Prober) Alive() (alive, known bool) {
	alive, known = true, true
	if p == nil {
		return alive, known
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.watched {
		for _, plan := range w.Plans {
			if plan.Kind != Liveness || plan.Problem != "" {
				continue
			}
			last := w.states[Liveness].Last
			alive = alive && last != Failure
			known = known && last != ""
		}
	}
	return alive, known
}

// Results returns the current results. The caller owns the maps.
func (p *Prober) Results() Results {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := Results{Started: map[string]bool{}, Ready: map[string]bool{}, Kill: map[string]Kill{}}
	for id, w := range p.watched {
		r.Started[id] = w.passed(Startup)
		r.Ready[id] = r.Started[id] && w.passed(Readiness)
		for _, plan := range w.Plans {
			if plan.Kind != Readiness && w.states[plan.Kind].Value == Failure {
				r.Kill[id] = Kill{Kind: plan.Kind, Message: plan.killMessage(w.Init), GraceSeconds: plan.GraceSeconds}
			}
		}
	}
	return r
}

func (w *watched) passed(kind Kind) bool {
	s, probed := w.states[kind]
	return !probed || s.Value == Success
}
