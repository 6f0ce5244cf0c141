package serve

import (
	"context"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/serve/supervisor"
	"github.com/podrun/podrun/serve/systemd"
)

// newSupervisor returns a supervisor that uses the components.
func newSupervisor(ctx context.Context, e *run.Node, o Options, c components) *supervisor.Supervisor {
	s := supervisor.New(e, supervisor.Options{
		AllowKubelet: o.AllowKubelet,
		Ready:        o.Ready,
		Progress:     reportProgress(e, o),
		Heartbeat:    o.Heartbeat,

		Sources:      &withJobs{engine: e, files: c.sources, jobs: c.jobs, cluster: c.cluster},
		Changed:      c.changed,
		StateChanges: c.states,
		Taken:        c.services.apply,

		Jobs:      c.jobs.Run,
		HasPod:    c.jobs.Has,
		Forgotten: c.jobs.Wake,
		Reports:   c.cluster,

		Locked:   func() { c.api.listen(ctx) },
		Starting: func(id identity.Pod) { c.api.metrics.PodBegun(id, time.Now()) },
		Listed:   c.api.metrics.Relisted,
		Evicted:  c.api.metrics.Evicted,

		RolledBack: c.api.metrics.RolledBack,

		RotateLogs:      func(ctx context.Context, running []observe.Running) { rotateLogs(ctx, e, running) },
		RotateLogsEvery: e.Settings.ContainerLogMonitorInterval,
		Stats:           supervisor.NewStats(e),
		Images:          Images(e),
		Collect:         func(ctx context.Context) { collectLeftovers(ctx, e) },
		Shutdowns:       dialLogind,
	})
	c.api.supervised(s)
	return s
}

// dialLogind connects to the service that announces shutdowns.
func dialLogind(ctx context.Context) (supervisor.Shutdowns, error) {
	l, err := systemd.DialLogind(ctx)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// collectLeftovers removes leftovers of killed podrun processes. If the runtime does not
// respond, it does not report that, because another part of the supervisor does.
func collectLeftovers(ctx context.Context, e *run.Node) {
	if _, err := run.GC(ctx, e, run.GCOptions{Timeout: time.Minute}); err != nil && ctx.Err() == nil && !observe.IsUnavailable(err) {
		e.WarnOnce(problem.WarningOf(err))
	}
}
