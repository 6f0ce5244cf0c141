package cli

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/servicesync"
)

// StoredPods returns the pods of the namespace, or of all namespaces if it is empty.
func StoredPods(node *run.Node, namespace string) []identity.Pod {
	pods, err := lookup.Stored(node)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(pods, func(p identity.Pod) bool { return namespace != "" && p.Namespace != namespace })
}

// Runtime returns the container runtime that the settings specify.
func (a *App) Runtime(r *Renderer, s nodeconfig.Settings) *ownruntime.Runtime {
	return ownruntime.New(s, ownruntime.Options{Command: a.Holder, Note: r.Note, Warn: r.Warn})
}

// Dial connects to the runtime that the settings specify, and stores its endpoint in
// them.
func (a *App) Dial(ctx context.Context, r *Renderer, s *nodeconfig.Settings, use ownruntime.Use) (*cri.Client, error) {
	endpoint, err := a.Runtime(r, *s).Open(ctx, use)
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

// OpenNode returns the node for this command, and a function that closes its connection.
func (a *App) OpenNode(ctx context.Context, r *Renderer, use ownruntime.Use) (*run.Node, func(), error) {
	settings, notes, err := a.Settings.Settings()
	if err != nil {
		return nil, nil, err
	}
	a.WarnAbout(r, notes)
	client, err := a.Dial(ctx, r, &settings, use)
	if err != nil {
		return nil, nil, err
	}
	client.OnUnresponsive(func() {
		r.Warn(problem.List{{
			Object:  "runtime " + client.Endpoint(),
			Message: "does not answer yet; podrun waits",
			Hint:    "check whether it is overloaded, and whether the socket belongs to another program",
			Warning: true,
		}})
	})
	a.tracing.observe(client)
	node := &run.Node{
		Client: client, Settings: settings,
		Emit: r.Event, Progress: r.Event, Warn: r.Warn,
		Command: a.Holder, Invocation: run.NewInvocation(),
		RepairImages: a.Runtime(r, settings).ImageRepair(client.Endpoint()),
	}
	node.UseAhead(a.ahead.facts)
	a.stored = func() []identity.Pod { return StoredPods(node, "") }
	// Closing reads and writes no data, so its error can be ignored.
	return node, func() { _ = client.Close() }, nil
}

// OpenNodeAsRoot is OpenNode for commands that change something, which requires root.
func (a *App) OpenNodeAsRoot(ctx context.Context, r *Renderer, use ownruntime.Use) (*run.Node, func(), error) {
	if err := a.RequireRoot(ctx, r); err != nil {
		return nil, nil, err
	}
	node, closeAll, err := a.OpenNode(ctx, r, use)
	if err != nil {
		return nil, nil, err
	}
	// If the copy cannot be written, podrun serve reports it; this command does not need the copy.
	_ = a.Settings.Keep()
	end := syncWhileStopping(ctx, a, node)
	return node, func() {
		end()
		run.FinishServices(ctx, node)
		closeAll()
	}, nil
}

// syncWhileStopping removes a pod from the endpoints of Services when the command begins to stop the
// pod: its preStop hook and grace period may take long. A supervisor does this itself. The returned
// function ends the work.
func syncWhileStopping(ctx context.Context, a *App, node *run.Node) (end func()) {
	signals := wait.NewSignal()
	node.Observer.Stopping = func(identity.Pod) { signals.Send() }
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
			if !node.Supervised() {
				// The synchronization at the end of the command reports errors and omitted Services.
				_, _ = servicesync.Sync(ctx, node)
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

// ReadAhead starts to read the host's facts, which takes as long as reading manifests. The
// node that the command opens later uses the result. It starts no runtime. If a read fails, the
// node repeats it and reports the error.
func (a *App) ReadAhead(r *Renderer) (end func()) {
	settings, _, err := a.Settings.Settings()
	if err != nil || a.RequireRoot(a.Deadline.Unlimited, r) != nil {
		return func() {}
	}
	limit, ctx := a.Deadline.limit, a.Deadline.Unlimited
	endpoint := a.Runtime(r, settings).External(ctx)
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
	a.ahead = readAheadState{client, run.ReadAhead(ctx, client, settings, a.AllowKubelet)}
	return func() {
		cancel()
		_ = client.Close() // nothing is lost
	}
}

// WarnAbout prints the warnings about the settings file. Without -v, it omits fields that
// podrun does not use.
func (a *App) WarnAbout(r *Renderer, notes problem.List) {
	for _, n := range notes {
		if n.Reason != nodeconfig.ReasonUnused || a.Verbose {
			r.Warn(problem.List{n})
		}
	}
}

// RequireRoot returns an error if podrun can neither run as root nor use the embedded runtime of an ordinary
// user: the settings specify another runtime, whose pods require root.
func (a *App) RequireRoot(ctx context.Context, r *Renderer) error {
	if os.Geteuid() == 0 && rootless.Inside() == nil {
		return nil
	}
	settings, _, err := a.Settings.Settings()
	if err != nil {
		return err
	}
	if endpoint := a.Runtime(r, settings).External(ctx); endpoint != "" && !ownruntime.IsOfUser(endpoint) {
		return &problem.Error{
			Kind:   problem.Runtime,
			Object: "container runtime at " + endpoint,
			Err:    errors.New("podrun creates cgroups and mounts for its pods and must run as root"),
			Hint:   "use sudo",
		}
	}
	return nil
}
