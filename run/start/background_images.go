package start

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
)

// BackgroundImages waits for images in the background and wakes the worker.
type BackgroundImages struct {
	starter *Starter
	wake    func()
	ctx     context.Context
	byName  map[string]*imageWait // by the name of the container or the image volume
	all     sync.WaitGroup
}

// imageWait is the wait for one image.
type imageWait struct {
	plan     imagepull.Plan // plan for this image only
	done     chan struct{}  // closed when result and err are set
	backsOff chan struct{}  // closed when the first pull has failed
	cancel   context.CancelFunc
	failures atomic.Int32 // how many attempts have failed
	shown    int32        // how many of them the observation contains
	result   imagepull.Result
	err      error
}

// NewBackgroundImages returns a supervisor's waiter for the starter's pod; the caller must close it. It
// stops waiting when ctx is done. It calls wake when an image is available, and after each failed attempt to pull it.
func NewBackgroundImages(ctx context.Context, s *Starter, wake func()) *BackgroundImages {
	return &BackgroundImages{starter: s, wake: wake, ctx: ctx, byName: map[string]*imageWait{}}
}

// Waits returns false, because this implementation waits in the background.
func (i *BackgroundImages) Waits(string) bool { return false }

// Turn starts waiting for the images of a container: its own image, and those of its image volumes. If an attempt to
// pull one of them has failed since the last call, it adds the failure to the pod's observation: the runtime has not
// changed, so that the worker would not observe the pod again.
func (i *BackgroundImages) Turn(_ context.Context, a lifecycle.Action, _ bool) (Turn, error) {
	spec := lifecycle.FindContainer(i.starter.pod.Spec(), a.Container)
	names := []string{a.Container}
	for _, volume := range i.starter.imageVolumes(spec.Container) {
		names = append(names, imagepull.VolumeImage(volume))
	}
	waiting, skippable, failed := false, true, false
	for _, name := range names {
		wait := i.await(name)
		if n := wait.failures.Load(); n != wait.shown {
			wait.shown, failed = n, true
		}
		select {
		case <-wait.done:
			continue
		default:
		}
		waiting = true
		select {
		case <-wait.backsOff:
		default:
			skippable = false
		}
	}
	if plan := i.starter.pod.Plan; failed {
		i.starter.pod.Observed.ImageFailures = observe.ReadImageFailures(plan.Layout, plan.ID.UID)
	}
	switch {
	case !waiting:
		return Now, nil
	case skippable && !spec.Init:
		return Later, nil
	}
	return LaterWithRest, nil
}

// await starts waiting for an image, unless a wait is already pending.
func (i *BackgroundImages) await(name string) *imageWait {
	if wait := i.byName[name]; wait != nil {
		return wait
	}
	wait := &imageWait{plan: i.starter.pod.Plan.Images.Only(name), done: make(chan struct{}), backsOff: make(chan struct{})}
	i.byName[name] = wait
	var ctx context.Context
	ctx, wait.cancel = context.WithCancel(i.ctx)
	ended := i.starter.Images.fromFirst(name) && i.starter.Images.first.Done(name)
	pulls, end := i.starter.Images.pullsFor(ctx, name, i.starter.pod.Plan.Images)
	// podrun uses the result immediately, so that the worker does not need another pass.
	if ended {
		wait.result, wait.err = pulls.Wait(ctx, name)
		wait.cancel()
		close(wait.done)
		return wait
	}
	i.all.Go(func() {
		defer wait.cancel()
		for n := pulls.Failures(ctx, name, 0); n > 0; n = pulls.Failures(ctx, name, n) {
			if wait.failures.Swap(int32(n)) == 0 {
				close(wait.backsOff)
			}
			i.wake()
		}
		wait.result, wait.err = pulls.Wait(ctx, name)
		end()
		close(wait.done)
		i.wake()
	})
	return wait
}

// present returns the result of the wait that Turn started for the image. If there is none, it returns the result
// of Images.present.
func (i *BackgroundImages) present(name string) (imagepull.Result, bool) {
	wait := i.byName[name]
	if wait == nil {
		return i.starter.Images.present(name)
	}
	select {
	case <-wait.done:
		return wait.result, wait.err == nil
	default:
		return imagepull.Result{}, false
	}
}

// take returns the result of a wait that Turn started.
func (i *BackgroundImages) take(_ context.Context, name string) (imagepull.Result, error) {
	wait := i.byName[name]
	if wait == nil {
		return imagepull.Result{}, fmt.Errorf("container %s: podrun does not wait for its image yet", name)
	}
	<-wait.done
	delete(i.byName, name)
	return wait.result, wait.err
}

// reset cancels waits for images that the pod's new definition does not use.
func (i *BackgroundImages) reset() {
	maps.DeleteFunc(i.byName, func(name string, wait *imageWait) bool {
		if reflect.DeepEqual(wait.plan, i.starter.pod.Plan.Images.Only(name)) {
			return false
		}
		wait.cancel()
		return true
	})
}

// Close cancels all waits and returns when they have ended.
func (i *BackgroundImages) Close() {
	for _, wait := range i.byName {
		wait.cancel()
	}
	i.all.Wait()
}
