package probe

import (
	"context"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/event"
)

// parallel is how many probes of one pod run at a time.
const parallel = 16

// Options are the settings of a Prober: how it reaches containers and where it
// reports.
type Options struct {
	// Exec runs the commands of exec probes; an in-flight one is canceled by
	// its context.
	Exec Exec
	// Emit takes the kubelet's Unhealthy and ProbeWarning events; it may be nil.
	Emit event.Sink
	// Report is called when a probe's value changes: a startup or readiness probe passed
	// (ok), a readiness probe failed, or a startup or liveness probe failed, which means
	// that the container must be killed; message describes this, or is the output of the
	// failed probe. Results already contains the change. Report is called from several
	// goroutines, must not block for long and must not call Stop. It may be nil.
	Report func(containerID string, kind Kind, ok bool, message string)
	// Probed gets the result of each probe that counts, when Results has what follows
	// from it. It is called from several goroutines and must not block. It may be nil.
	Probed func(Plan, Outcome)
	// Owned reports whether the caller still owns the pod. If it returns false, the probe
	// is not run, and its container is not probed again until Set removes it. It is
	// called from several goroutines. Nil means always.
	Owned func() bool
	// Settle is how long after its start a container is first probed, at the
	// earliest, whatever its initialDelaySeconds: zero is at once. A kubelet
	// learns from its next look at the runtime, up to 1 s later, that a
	// container runs; one that would be killed for a port not yet open in its
	// first milliseconds lives there.
	Settle time.Duration
}

// Container is a running container to probe.
type Container struct {
	ID        string
	Init      bool // an init container, so a sidecar
	StartedAt time.Time
	PodIP     string // the host's for a pod on the host's network
	Plans     []Plan // see All
	// WasStarted and WasReady are what an earlier process's probes found: the results
	// begin with them, and a startup probe that has succeeded is not run again
	// (KEP-4781: a restart of the kubelet does not change them).
	WasStarted, WasReady bool
}

// initial is a probe's state before this process has probed the container.
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
	// Message is the kubelet's "Container app failed liveness probe", followed by ", will
	// be restarted" if it will be; for a sidecar it is only "Init container app failed
	// liveness probe".
	Message      string
	GraceSeconds *int64 // replaces the pod's grace period; nil is the pod's
}

// Results are the results of the probes of the watched containers, by container
// ID. A container without a startup probe is started; a started container without
// a readiness probe is ready.
type Results struct {
	Started, Ready map[string]bool
	Kill           map[string]Kill // the container to be killed
}

// Prober probes the running containers of one pod until it is stopped. All of
// its methods may be called concurrently.
type Prober struct {
	options Options
	slots   chan struct{}
	workers sync.WaitGroup

	mu      sync.Mutex
	watched map[string]*watched
	stopped bool
}

// watched is a container that is being probed. The prober's lock guards its results; a
// worker whose context has ended no longer changes them.
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

// Set sets the running containers: it starts probing new ones, keeps probing the
// others, and cancels the probes of those that are missing. The plans of a
// container apply when it is first set.
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

// watch starts a container's workers. The lock is held.
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

// set takes in a probe's state. The prober's lock is held.
func (w *watched) set(kind Kind, s State) {
	passed := kind == Startup && s.Value == Success && w.states[kind].Value != Success
	w.states[kind] = s
	if passed {
		close(w.started)
	}
}

// Stop cancels all probes and waits for their end. Results stay available.
func (p *Prober) Stop() {
	p.mu.Lock()
	p.stopped = true
	for _, w := range p.watched {
		w.stop()
	}
	p.mu.Unlock()
	p.workers.Wait()
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
