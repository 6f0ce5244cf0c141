package reconcile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

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
	// Those of a worker that supervises its pod.
	watch         *observe.Watch
	retries       retries
	waits         *imageWaits
	reportedError string // the last one
}

// execute does the actions in order. An error ends the sync; what goes wrong
// with a single container is noted in failures, and the next one has its turn,
// as in the kubelet.
func (w *starter) execute(ctx context.Context, actions []lifecycle.Action) error {
	var late []lifecycle.Action // of containers whose images are backed off from
	for i := 0; i < len(actions); i++ {
		a := actions[i]
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		w.acted = true
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
		if err := w.executeOne(ctx, a); err != nil {
			return err
		}
		if len(w.failures) > 0 && a.Verb == lifecycle.StartContainer && lifecycle.FindContainer(w.pod(), a.Container).Init {
			return nil // what comes after an init container depends on it
		}
	}
	return nil
}

func (w *starter) executeOne(ctx context.Context, a lifecycle.Action) error {
	switch a.Verb {
	case lifecycle.KillPod:
		return w.ofRuntime(w.killPod(ctx))
	case lifecycle.CreateSandbox:
		return w.createSandbox(ctx, a)
	case lifecycle.KillContainer:
		grace := w.gracePeriod()
		if a.Grace != nil {
			grace = time.Duration(*a.Grace) * time.Second
		}
		return w.killContainer(ctx, a.ID, grace, a.Message)
	case lifecycle.StartContainer:
		return w.startContainer(ctx, a)
	case lifecycle.RestartAll:
		return w.restartAll(ctx)
	case lifecycle.RunPostStart:
		c := w.obs.Container(a.Container)
		if c == nil {
			return fmt.Errorf("container %s is gone", a.Container)
		}
		return w.postStart(ctx, *c)
	}
	return fmt.Errorf("unknown action %s", a.Verb)
}

// restartAll stops every container, and keeps on disk that those which are here
// no longer count.
func (w *starter) restartAll(ctx context.Context) error {
	if err := w.stopContainers(ctx, w.gracePeriod()); err != nil {
		return w.ofRuntime(err)
	}
	epoch := time.Now()
	file := w.plan.Layout.RestartEpoch(w.plan.ID.UID)
	err := os.MkdirAll(filepath.Dir(file), 0o750)
	if err == nil {
		err = store.WriteState(file, []byte(epoch.Format(time.RFC3339Nano)), 0o640)
	}
	if err != nil {
		return fmt.Errorf("pod %s: keep that its containers are restarted: %w", w.plan.ID, err)
	}
	w.obs.Epoch = epoch
	return nil
}
