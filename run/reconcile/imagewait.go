package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/run/lifecycle"
)

// imageWaits are the images that a supervised pod's containers wait for, by the
// names of the containers and image volumes.
type imageWaits struct {
	ctx    context.Context
	byName map[string]*imageWait
	all    sync.WaitGroup
}

// imageWait is the wait for one image, in the background.
type imageWait struct {
	done     chan struct{} // closed when result and err are set
	backsOff chan struct{} // closed when the first pull has failed
	result   imagepull.Result
	err      error
}

// imageHeld reports whether a container must wait for an image, and whether later
// containers may start since then, as during the back-off of its pull.
func (w *starter) imageHeld(a lifecycle.Action) (held, goOn bool) {
	names := []string{a.Container}
	for _, m := range lifecycle.FindContainer(w.pod(), a.Container).Container.VolumeMounts {
		if name := imagepull.VolumeImage(m.Name); w.plan.Mounts()[m.Name].Image != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	goOn = true
	for _, name := range names {
		wait := w.awaitImage(name)
		select {
		case <-wait.done:
			continue
		default:
		}
		held = true
		select {
		case <-wait.backsOff:
		default:
			goOn = false
		}
	}
	return held, goOn
}

// awaitImage begins to wait for an image, if that has not begun.
func (w *starter) awaitImage(name string) *imageWait {
	if wait := w.waits.byName[name]; wait != nil {
		return wait
	}
	wait := &imageWait{done: make(chan struct{}), backsOff: make(chan struct{})}
	w.waits.byName[name] = wait
	pulls, ours := w.pulls, false
	if pulls == nil || w.pulled[name] {
		pulls, ours = w.puller.Start(w.waits.ctx, w.plan.Images.Only(name)), true
	}
	w.pulled[name] = true
	w.waits.all.Go(func() {
		if pulls.BacksOff(w.waits.ctx, name) {
			close(wait.backsOff)
			w.wakeUp()
		}
		wait.result, wait.err = pulls.Wait(w.waits.ctx, name)
		if ours {
			pulls.Stop()
		}
		close(wait.done)
		w.wakeUp()
	})
	return wait
}

// takeImage returns the image that a container has waited for.
func (w *starter) takeImage(name string) (imagepull.Result, error) {
	wait := w.waits.byName[name]
	if wait == nil {
		return imagepull.Result{}, fmt.Errorf("container %s: its image was not waited for", name)
	}
	<-wait.done
	delete(w.waits.byName, name)
	return wait.result, wait.err
}
