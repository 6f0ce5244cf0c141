package cmd

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/servicesync"
)

// runtime returns the container runtime that the settings specify.
func (a *app) runtime(r *renderer, s nodeconfig.Settings) *ownruntime.Runtime {
	return ownruntime.New(s, ownruntime.Options{Command: a.holder, Note: r.note, Warn: r.warn})
}

// dial connects to the runtime that the settings specify, and stores its endpoint in
// them.
func (a *app) dial(ctx context.Context, r *renderer, s *nodeconfig.Settings, use ownruntime.Use) (*cri.Client, error) {
	endpoint, err := a.runtime(r, *s).Open(ctx, use)
	if err != nil {
		return nil, err
	}
	s.ContainerRuntimeEndpoint = endpoint
	if c := a.ahead.client; c != nil && c.Endpoint() == endpoint {
		return c, nil
	}
	client, err := cri.Dial(endpoint, s.ImageServiceEndpoint, s.RuntimeRequestTimeout)
	if err != nil {
		return nil, &problem.Error{Kind: problem.Usage, Object: "--container-runtime-endpoint", Err: err}
	}
	return client, nil
}

// engine returns the engine for this command, and a function that closes its connection.
func (a *app) engine(ctx context.Context, r *renderer, use ownruntime.Use) (*run.Node, func(), error) {
	settings, notes, err := a.settings.Settings()
	if err != nil {
		return nil, nil, err
	}
	a.warnAbout(r, notes)
	client, err := a.dial(ctx, r, &settings, use)
	if err != nil {
		return nil, nil, err
	}
	client.OnUnresponsive(func() {
		r.warn(problem.List{{Object: "runtime " + client.Endpoint(), Message: "does not answer yet; podrun waits", Hint: "check whether it is overloaded, and whether the socket belongs to another program", Warning: true}})
	})
	a.tracing.observe(client)
	e := &run.Node{
		Client: client, Settings: settings,
		Emit: r.event, Progress: r.event, Warn: r.warn,
		Command: a.holder, Invocation: run.NewInvocation(),
		RepairImages: a.runtime(r, settings).ImageRepair(client.Endpoint()),
	}
	e.UseAhead(a.ahead.facts)
	a.stored = func() []identity.Pod { return storedPods(e, "") }
	// Closing reads and writes no data, so its error can be ignored.
	return e, func() { _ = client.Close() }, nil
}

// rootEngine is engine for commands that change something, which requires root.
func (a *app) rootEngine(ctx context.Context, r *renderer, use ownruntime.Use) (*run.Node, func(), error) {
	if err := requireRoot(); err != nil {
		return nil, nil, err
	}
	engine, closeAll, err := a.engine(ctx, r, use)
	if err != nil {
		return nil, nil, err
	}
	// If the copy cannot be written, podrun serve reports it; this command does not need the copy.
	_ = a.settings.Keep()
	end := a.syncWhileStopping(ctx, engine)
	return engine, func() {
		end()
		run.FinishServices(ctx, engine)
		closeAll()
	}, nil
}

// syncWhileStopping removes a pod from the endpoints of Services when the command begins to stop the
// pod: its preStop hook and grace period may take long. A supervisor does this itself. The returned
// function ends the work.
func (a *app) syncWhileStopping(ctx context.Context, e *run.Node) (end func()) {
	signals := wait.NewSignal()
	e.Observer.Stopping = func(identity.Pod) { signals.Send() }
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			if !e.Supervised() {
				// The synchronization at the end of the command reports errors and omitted Services.
				_, _ = servicesync.Sync(ctx, e)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// readAheadState is the work that a command that admits pods starts while it reads their
// manifests.
type readAheadState struct {
	client *cri.Client
	facts  *run.Ahead
}

// readAheadGrace is the time between the expiry of the command's limit and the expiry of
// ReadAhead's limit. The command's limit must expire first, because its error names the limit that
// the user set.
const readAheadGrace = 5 * time.Second

// readAhead starts to read the host's facts, which takes as long as reading manifests. The
// engine that the command creates later uses the result. It starts no runtime. If a read fails, the
// engine repeats it and reports the error.
func (a *app) readAhead(r *renderer) (end func()) {
	settings, _, err := a.settings.Settings()
	if err != nil || requireRoot() != nil {
		return func() {}
	}
	limit, ctx := a.deadline.limit, a.deadline.unlimited
	endpoint := a.runtime(r, settings).External(ctx)
	if endpoint == "" {
		return func() {}
	}
	client, err := cri.Dial(endpoint, settings.ImageServiceEndpoint, settings.RuntimeRequestTimeout)
	if err != nil {
		return func() {}
	}
	a.tracing.observe(client)
	settings.ContainerRuntimeEndpoint = endpoint
	if limit > 0 {
		limit += readAheadGrace
	}
	ctx, cancel := wait.WithTimeout(ctx, limit)
	a.ahead = readAheadState{client, run.ReadAhead(ctx, client, settings, a.allowKubelet)}
	return func() {
		cancel()
		_ = client.Close() // nothing is lost
	}
}

// warnAbout prints the warnings about the settings file. Without -v, it omits fields that
// podrun does not use.
func (a *app) warnAbout(r *renderer, notes problem.List) {
	for _, n := range notes {
		if n.Reason != nodeconfig.ReasonUnused || a.verbose {
			r.warn(problem.List{n})
		}
	}
}

// requireRoot returns an error unless podrun runs as root. The embedded runtime of an ordinary user does not require
// it, and app.enter has refused another one.
func requireRoot() error {
	if os.Geteuid() != 0 && !rootless.User() {
		return &problem.Error{Kind: problem.Runtime, Err: errors.New("podrun creates cgroups and mounts and must run as root"), Hint: "use sudo"}
	}
	return nil
}
