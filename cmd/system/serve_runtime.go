package system

import (
	"context"
	"errors"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/serve"
)

// startPatience is how long serve waits for the first start of the embedded runtime before it begins
// to supervise pods without a runtime. It is less than TimeoutStartSec and WatchdogSec of
// podrun.service.
const startPatience = 5 * time.Second

// retryEvery is the interval at which serve searches for a runtime on a host that has none.
const retryEvery = time.Second

// opened is the result of Runtime.Open.
type opened struct {
	endpoint string
	err      error
}

// connect connects to the runtime and starts to supervise it. If the embedded runtime does not start,
// connect nevertheless returns its client: pods then wait until it answers. If this host has no
// runtime, connect waits for one. It returns nil, nil if a signal interrupts the wait.
func (s *server) connect(ctx context.Context, settings *nodeconfig.Settings, api serve.APIOptions) (*cri.Client, error) {
	w := waitingServer{server: s, settings: *settings, api: api}
	defer func() { w.provided.Close() }()
	for {
		result := make(chan opened, 1)
		go func() {
			endpoint, err := s.runtime.Open(ctx, ownruntime.Starts)
			result <- opened{endpoint, err}
		}()
		var o opened
		select {
		case <-ctx.Done():
			return nil, nil
		case o = <-result:
		case <-time.After(startPatience):
			if own := s.runtime.OwnEndpoint(ctx); own != "" {
				go func() { s.runtime.Keep(ctx, own, (<-result).err) }()
				return s.dial(settings, own)
			}
			o = <-result // Open ends soon, because it limits its search for a runtime
		}
		switch e, ok := errors.AsType[*problem.Error](o.err); {
		case ctx.Err() != nil:
			return nil, nil
		case o.err == nil:
			go s.runtime.Keep(ctx, o.endpoint, nil)
			return s.dial(settings, o.endpoint)
		case !ok || e.Kind != problem.Runtime:
			return nil, o.err
		}
		if own := s.runtime.OwnEndpoint(ctx); own != "" {
			go s.runtime.Keep(ctx, own, o.err)
			return s.dial(settings, own)
		}
		w.report(ctx, o.err)
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(retryEvery):
		}
	}
}

// waitingServer reports that serve waits for a runtime.
type waitingServer struct {
	*server
	settings nodeconfig.Settings
	api      serve.APIOptions
	reported string         // the last reason
	provided *serve.Waiting // nil while another supervisor uses the root directory
}

// report reports why there is no runtime: to the user and as the status if the reason is new, and always
// in the HTTP API.
func (w *waitingServer) report(ctx context.Context, err error) {
	reason := problem.WithHint(err)
	if w.provided == nil {
		w.provided = serve.AwaitRuntime(ctx, w.settings, w.api, w.renderer.Warn)
	}
	w.provided.Report(reason)
	if w.reported == "" {
		w.warnNotSent(w.notifier.Ready())
	}
	if reason != w.reported {
		w.reported = reason
		w.renderer.Warn(problem.List{problem.WarningOf(err)})
		w.warnNotSent(w.notifier.Status("waiting for a container runtime: " + err.Error()))
	}
	w.warnNotSent(w.notifier.Watchdog())
}

// dial returns a client of the runtime, which need not answer yet.
func (s *server) dial(settings *nodeconfig.Settings, endpoint string) (*cri.Client, error) {
	settings.ContainerRuntimeEndpoint = endpoint
	client, err := cri.Dial(endpoint, settings.ImageServiceEndpoint, settings.RuntimeRequestTimeout)
	if err != nil {
		return nil, &problem.Error{Kind: problem.Usage, Object: "--container-runtime-endpoint", Err: err}
	}
	return client, nil
}

// runtimeState returns the state of the runtime for /readyz and systemd.
func (s *server) runtimeState(ctx context.Context) serve.RuntimeState {
	problem, note := s.runtime.Condition(ctx)
	return serve.RuntimeState{Problem: problem, Note: note}
}
