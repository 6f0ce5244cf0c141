package cmd

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
)

// runtime is the container runtime of the settings.
func (a *app) runtime(r *renderer, s nodeconfig.Settings) *run.Runtime {
	return run.NewRuntime(s, run.RuntimeOptions{Command: a.commandLine, Note: r.note, Warn: r.warn})
}

// dial connects to the runtime of the settings, and puts its endpoint there.
func (a *app) dial(ctx context.Context, r *renderer, s *nodeconfig.Settings, use run.RuntimeUse) (*cri.Client, error) {
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

// engine makes the engine of this command, and what ends its connection.
func (a *app) engine(ctx context.Context, r *renderer, use run.RuntimeUse) (*run.Engine, func(), error) {
	settings, notes, err := a.settings.settings()
	if err != nil {
		return nil, nil, err
	}
	a.warnAbout(r, notes)
	client, err := a.dial(ctx, r, &settings, use)
	if err != nil {
		return nil, nil, err
	}
	client.OnUnresponsive(func() {
		r.warn(problem.List{{Object: "runtime " + client.Endpoint(), Message: "does not answer; podrun waits for it", Hint: "check whether it is overloaded, and whether the socket belongs to another program", Warning: true}})
	})
	a.tracing.observe(client)
	e := &run.Engine{Node: run.Node{
		Client: client, Settings: settings,
		Emit: r.event, Progress: r.event, Warn: r.warn,
		Command: a.commandLine, Invocation: run.NewInvocation(),
	}}
	e.UseAhead(a.ahead.facts)
	// Nothing is lost when closing a connection fails.
	return e, func() { _ = client.Close() }, nil
}

// rootEngine is engine for commands that act, which root alone can.
func (a *app) rootEngine(ctx context.Context, r *renderer, use run.RuntimeUse) (*run.Engine, func(), error) {
	if err := needRoot(); err != nil {
		return nil, nil, err
	}
	return a.engine(ctx, r, use)
}

// ahead is what a command that admits the pods of manifests begins while it reads them.
type ahead struct {
	client *cri.Client
	facts  *run.Ahead
}

// aheadGrace is how much longer the reading may take than the command: what ends the
// command is its own limit, which has a name in the message.
const aheadGrace = 5 * time.Second

// readAhead begins to read the host's facts, which takes as long as to read manifests, for
// the engine that is made afterwards; limit is the command's. It starts no runtime, and
// what fails is tried again, and reported, by the engine.
func (a *app) readAhead(ctx context.Context, r *renderer, limit time.Duration) (end func()) {
	settings, _, err := a.settings.settings()
	if err != nil || needRoot() != nil {
		return func() {}
	}
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
		limit += aheadGrace
	}
	ctx, cancel := run.WithTimeout(ctx, limit)
	a.ahead = ahead{client, run.ReadAhead(ctx, client, settings, a.allowKubelet)}
	return func() {
		cancel()
		_ = client.Close() // nothing is lost
	}
}

// warnAbout returns the warnings about the settings file: fields that podrun
// does not use only when asked to say more.
func (a *app) warnAbout(r *renderer, notes problem.List) {
	for _, n := range notes {
		if n.Reason != nodeconfig.ReasonUnused || a.verbose {
			r.warn(problem.List{n})
		}
	}
}

// needRoot refuses commands that act, where podrun cannot.
func needRoot() error {
	if os.Geteuid() != 0 {
		return &problem.Error{Kind: problem.Runtime, Err: errors.New("podrun creates cgroups and mounts and must run as root"), Hint: "use sudo"}
	}
	return nil
}
