package ownruntime

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
)

// slowestStart is the maximum interval between two attempts of Keep to start containerd. The first interval is 0,
// the second is 1 s, and each later one is twice the previous one. After containerd has run for slowestStart, the
// intervals start from 0 again.
const slowestStart = 30 * time.Second

// OwnEndpoint returns the endpoint of the embedded runtime if commands with these settings use it, even
// if it cannot be started. Otherwise, it returns "".
func (r *Runtime) OwnEndpoint(ctx context.Context) string {
	if _, d, err := r.choose(ctx, Starts); err != nil || d.Kind != embedded.Own {
		return ""
	}
	return r.layout.Endpoint()
}

// Keep restarts the embedded runtime when it exits, and limits the size of its log, until ctx ends. It returns
// immediately if the endpoint belongs to another runtime. The argument failed is the error of Open, which makes
// the first attempt to start the runtime. It is nil if containerd answers.
func (r *Runtime) Keep(ctx context.Context, endpoint string, failed error) {
	if endpoint != r.layout.Endpoint() {
		return
	}
	if failed == nil {
		warnOfHandlers(ctx, r)
	}
	collision, reported := "", ""
	began, pause := time.Now(), time.Duration(0)
	for ctx.Err() == nil {
		last := embedded.ReadDaemon(ctx, r.layout)
		switch {
		case failed != nil:
			setProblem(&r.problem, problem.WithHint(failed))
			if text := failed.Error(); text != reported {
				r.Warn(problem.List{problem.WarningOf(failed)})
				reported = text
			}
		case last.Usable(ctx, r.layout):
			setProblem(&r.problem, unrepaired(ctx, r))
			attend(ctx, r, last, &collision)
			embedded.NoteStable(ctx, r.layout, began)
			if time.Since(began) > slowestStart {
				pause, reported = 0, ""
			}
			continue
		case !last.Alive():
			setProblem(&r.problem, "containerd exited")
		}
		if wait.Sleep(ctx, pause) != nil {
			return
		}
		pause = wait.Next(pause, time.Second, slowestStart)
		if failed = r.start(ctx); failed == nil {
			began = time.Now()
			r.Warn(problem.List{{Warning: true, Object: "embedded runtime", Message: "containerd was not running: podrun started it"}})
		}
	}
}

// unrepaired repairs the sandbox image, and returns why no pod can start; "" if it is intact.
func unrepaired(ctx context.Context, r *Runtime) string {
	if _, err := (ownPause{r}).repair(ctx); err != nil && ctx.Err() == nil {
		return "no pod can start, because the sandbox image cannot be repaired: " + err.Error()
	}
	return ""
}

func setProblem(p *atomic.Pointer[string], text string) { p.Store(&text) }

// attend waits until the daemon exits, for at most a minute, and then maintains the runtime.
func attend(ctx context.Context, r *Runtime, d *embedded.Daemon, collision *string) {
	r.warnOfCollision(ctx, collision)
	if _, err := embedded.AwaitEnd(ctx, d, time.Minute); err != nil && ctx.Err() == nil {
		r.Warn(problem.List{problem.WarningOf(err)})
		_ = wait.Sleep(ctx, time.Minute) // the caller checks ctx
	}
	trimLog(r.layout, r.Warn)
	r.restoreNetwork(ctx)
	r.collectNetwork(ctx)
}

// Condition describes the runtime that Keep supervises. The result problem explains why the runtime cannot be
// used at the moment. The result note informs the administrator that podrun replaced a damaged store. Both may
// be empty. Condition does not block.
func (r *Runtime) Condition(ctx context.Context) (problem, note string) {
	if p := r.problem.Load(); p != nil {
		problem = *p
	}
	return problem, ownStore{r}.note(ctx)
}
