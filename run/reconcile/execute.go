package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// starter makes a pod's sandbox and starts its containers.
type starter struct {
	remover
	puller *node.Puller
	acted  bool // something was done to the pod
	// volumesMade says that the volumes are there, as this worker made them, or since
	// containers of the pod were started.
	volumesMade bool
	// Those of a worker that supervises its pod.
	watch         *observe.Watch
	retries       retries
	decided       time.Time // when the actions were decided that the retries may delay
	waits         *imageWaits
	reportedError string // the last one
}

// execute does the actions in order. An error ends the worker's loop; the failure
// of a single container is noted in failures, and the next action has its turn, as
// in the kubelet.
func (w *starter) execute(ctx context.Context, actions []lifecycle.Action) error {
	var late []lifecycle.Action   // of containers whose images are backed off from
	var beside []lifecycle.Action // of containers that start in parallel
	startBeside := func() error {
		all := beside
		beside = nil
		return w.startBeside(ctx, all)
	}
	for i := 0; i < len(actions); i++ {
		a := actions[i]
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if len(beside) > 0 && (!w.startsBeside(a) || w.pulls != nil && !w.pulled[a.Container] && !w.pulls.Done(a.Container)) {
			// Those whose images are present wait neither for a pull nor for a hook.
			if err := startBeside(); err != nil {
				return err
			}
		}
		last := i == len(actions)-1 && len(late) == 0
		if !last && !slices.Contains(late, a) {
			backsOff, err := w.imageBacksOff(ctx, a)
			if err != nil {
				return err
			}
			if backsOff {
				late, actions = append(late, a), append(actions, a)
				continue
			}
		}
		if w.startsBeside(a) {
			beside = append(beside, a)
			continue
		}
		if err := w.executeOne(ctx, a); err != nil {
			return err // ErrChanged: another process did it, or something else is to be done
		}
		w.acted = w.acted || a.Verb != lifecycle.ResizePod
		if len(w.failures) > 0 && a.Verb == lifecycle.StartContainer && lifecycle.FindContainer(w.pod(), a.Container).Init {
			return nil // later containers depend on an init container
		}
	}
	return startBeside()
}

// startBeside starts containers in parallel; nothing if there are none.
func (w *starter) startBeside(ctx context.Context, actions []lifecycle.Action) error {
	if len(actions) == 0 {
		return nil
	}
	defer trace.Begin(ctx, "start containers in parallel", w.plan.ID.String())()
	_, err := w.startContainers(ctx, actions...)
	return err
}

// executeOne does one action.
func (w *starter) executeOne(ctx context.Context, a lifecycle.Action) error {
	defer trace.Begin(ctx, string(a.Verb), w.objectOf(a))()
	switch a.Verb {
	case lifecycle.KillPod:
		if err := w.recordRestarts(a.Restart, w.runningIDs()...); err != nil {
			return err
		}
		return w.ofRuntime(w.stopPod(ctx, w.gracePeriod()))
	case lifecycle.CreateSandbox:
		return w.createSandbox(ctx, a)
	case lifecycle.KillContainer:
		if err := w.recordRestarts(a.Restart, a.ID); err != nil {
			return err
		}
		return w.killContainer(ctx, a.ID, w.graceOf(a), a.Message)
	case lifecycle.StartContainer:
		_, err := w.startContainers(ctx, a)
		return err
	case lifecycle.RestartAll:
		return w.restartAll(ctx)
	case lifecycle.RunPostStart:
		return w.postStart(ctx, a.Container)
	case lifecycle.ResizePod:
		return w.resize(ctx)
	}
	return fmt.Errorf("unknown action %s", a.Verb)
}

// objectOf names what an action is about.
func (w *starter) objectOf(a lifecycle.Action) string {
	if a.Container == "" {
		return w.plan.ID.String()
	}
	return w.plan.ID.String() + " " + a.Container
}

// graceOf is the grace period of a KillContainer: the action's, else the pod's.
func (w *starter) graceOf(a lifecycle.Action) time.Duration {
	if a.Grace != nil {
		return time.Duration(*a.Grace) * time.Second
	}
	return w.gracePeriod()
}

// restartAll stops every container, and writes down that they no longer count.
func (w *starter) restartAll(ctx context.Context) error {
	if err := w.stopContainers(ctx, w.gracePeriod()); err != nil {
		return w.ofRuntime(err)
	}
	ended := map[string]bool{}
	for _, c := range w.obs.Containers {
		ended[c.ID] = true
	}
	if err := store.KeepState(w.plan.Layout.Restarted(w.plan.ID.UID), slices.Sorted(maps.Keys(ended)), true); err != nil {
		return fmt.Errorf("pod %s: keep that its containers are restarted: %w", w.plan.ID, err)
	}
	w.obs.Restarted = ended
	return nil
}
