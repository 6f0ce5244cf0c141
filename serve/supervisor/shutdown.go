package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/shutdown"
)

// Shutdowns announces shutdowns of this host and lets podrun delay them.
type Shutdowns interface {
	// Events receives true when a shutdown begins, and false when a shutdown was canceled. It is
	// closed when the connection ends.
	Events() <-chan bool
	// Preparing reports whether a shutdown has begun.
	Preparing(ctx context.Context) (bool, error)
	// Inhibit delays shutdowns until release is called, but at most for DelayMax.
	Inhibit(ctx context.Context) (release func() error, err error)
	DelayMax(ctx context.Context) (time.Duration, error)
	Close() error
}

// shuttingDown records whether the host is shutting down.
type shuttingDown struct {
	now atomic.Bool
	// reloaded receives a signal when the settings have changed.
	reloaded wait.Signal
	reported string // why podrun does not watch shutdowns; used by only one goroutine
}

func (d *shuttingDown) begun() bool { return d.now.Load() }

// The delays before podrun reopens a failed or closed connection. The initial delay is the kubelet's
// dbusReconnectPeriod.
const (
	firstReconnect = time.Second
	lastReconnect  = time.Minute
)

// shutdownWatch stops the pods before the host shuts down.
type shutdownWatch struct{ s *Supervisor }

// resume restores the state of an earlier supervisor. If the host was shutting down when
// that supervisor exited, podrun assumes that the shutdown is still in progress until the host
// reports otherwise.
func (w shutdownWatch) resume(ctx context.Context) {
	layout := w.s.current().Layout()
	watched := w.s.options.Shutdowns != nil && len(w.s.current().Settings.ShutdownPeriods()) > 0
	if watched && discover.ShuttingDown(ctx, layout) {
		w.s.shutdown.now.Store(true)
		return
	}
	w.report(store.WriteShuttingDown(ctx, layout, false))
}

// report prints an error, unless it is the same as the previous one.
func (w shutdownWatch) report(err error) {
	if err != nil {
		w.s.current().SendWarnings(problem.List{problem.WarningOf(err)})
	}
}

// watch stops pods before the host shuts down, if the settings have shutdown
// periods.
func (w shutdownWatch) watch(ctx context.Context) {
	delay := firstReconnect
	for ctx.Err() == nil {
		if len(w.s.current().Settings.ShutdownPeriods()) == 0 {
			w.setShuttingDown(ctx, false)
			select {
			case <-ctx.Done():
			case <-w.s.shutdown.reloaded:
			}
			continue
		}
		began := time.Now()
		err := w.attend(ctx)
		if time.Since(began) > lastReconnect {
			delay = firstReconnect
		}
		if err != nil && ctx.Err() == nil && w.s.shutdown.reported != err.Error() {
			w.s.shutdown.reported = err.Error()
			w.report(fmt.Errorf("podrun cannot stop pods before the host shuts down: %w", err))
		}
		if err != nil {
			_ = wait.Sleep(ctx, delay) // the loop checks ctx
			delay = wait.Next(delay, firstReconnect, lastReconnect)
		}
	}
}

// attend waits for shutdowns until the settings change. It returns an error if it cannot
// wait for them.
func (w shutdownWatch) attend(ctx context.Context) error {
	h, err := w.s.options.Shutdowns(ctx)
	if err != nil {
		return err
	}
	defer h.Close()
	release, err := h.Inhibit(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if release != nil {
			w.report(release())
		}
	}()
	begun, err := h.Preparing(ctx)
	if err != nil {
		return err
	}
	w.checkDelay(ctx, h)
	w.s.shutdown.reported = ""
	for {
		switch {
		case begun && release != nil:
			w.shutDown(ctx)
			w.report(release())
			release = nil
		case !begun:
			w.setShuttingDown(ctx, false)
			if release == nil {
				if release, err = h.Inhibit(ctx); err != nil {
					return err
				}
			}
		}
		ok := true
		select {
		case <-ctx.Done():
			return nil
		case <-w.s.shutdown.reloaded:
			return nil
		case begun, ok = <-h.Events():
		}
		if !ok {
			return fmt.Errorf("the connection to logind was closed")
		}
	}
}

// checkDelay prints a warning if pods may take longer to stop than the maximum time for which the
// host delays a shutdown.
func (w shutdownWatch) checkDelay(ctx context.Context, h Shutdowns) {
	most, err := h.DelayMax(ctx)
	if periods := w.s.current().Settings.ShutdownDelay(); err == nil && most < periods {
		w.s.current().WarnOnce(problem.Problem{Object: "node", Warning: true,
			Message: fmt.Sprintf("logind delays a shutdown by at most %s, but pods may take %s to terminate", most, periods),
			Hint:    "run 'podrun service install', or increase InhibitDelayMaxSec in logind.conf"})
	}
}

// setShuttingDown records whether the host is shutting down. During a shutdown, commands refuse
// pods. After a shutdown was canceled, podrun starts the stopped pods again.
func (w shutdownWatch) setShuttingDown(ctx context.Context, now bool) {
	before := w.s.shutdown.now.Swap(now)
	if before == now {
		return
	}
	w.report(store.WriteShuttingDown(ctx, w.s.current().Layout(), now))
	what := "cancellation"
	if now {
		what = "event"
	}
	w.s.warnNode(event.NodeShutdown, "Shutdown manager detected shutdown "+what)
	w.s.resourcesFreed()
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for _, p := range w.s.pods {
		p.check()
	}
}

// shutDown stops all pods, beginning with the lowest priorities. If a group exceeds its period,
// the next group does not wait for it any longer.
func (w shutdownWatch) shutDown(ctx context.Context) {
	w.setShuttingDown(ctx, true)
	list := w.s.candidates(func(string) bool { return true })
	byObject := map[*corev1.Pod]candidate{}
	for _, c := range list {
		byObject[c.object] = c
	}
	for _, g := range shutdown.Plan(w.s.current().Settings.ShutdownPeriods(), objectsOf(list)) {
		bounded, cancel := context.WithTimeout(ctx, g.Period)
		var stops sync.WaitGroup
		for _, stop := range g.Pods {
			stops.Go(func() {
				e := reconcile.Eviction{Grace: stop.Grace, Shutdown: shutdown.Reason, Message: shutdown.Message}
				err := byObject[stop.Pod].pod.eviction.ask(bounded, e)
				if errors.Is(err, context.DeadlineExceeded) && bounded.Err() != nil {
					err = fmt.Errorf("it did not terminate within the grace period of its priority group (%s); the shutdown continues", g.Period)
				}
				if err != nil && ctx.Err() == nil {
					w.report(fmt.Errorf("stop pod %s before the host shuts down: %w", byObject[stop.Pod].pod.id, err))
				}
			})
		}
		stops.Wait()
		cancel()
	}
}
