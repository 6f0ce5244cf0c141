package start

import (
	"context"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// Images manages the images of a pod's containers: the first pulls, which begin when the pod is admitted,
// and later pulls, which restarts request.
type Images struct {
	puller *node.Puller // nil for an operation that starts no containers
	first  *imagepull.Pulls
	taken  map[string]bool // the containers whose image was taken from first
	Waiter ImageWaiter
}

// Begin starts the first pulls. The caller must call end.
func (i *Images) Begin(ctx context.Context, plan imagepull.Plan) (end func()) {
	first := i.puller.Start(ctx, plan)
	i.first = first
	return first.Stop // even after a Reset
}

// Forget stops sending the events of pulls to the pod's journal.
func (i *Images) Forget(j *store.Journal) {
	if i.puller != nil {
		i.puller.Forget(j)
	}
}

// Ready waits until the first pulls have finished. It returns the error of a pull.
func (i *Images) Ready(ctx context.Context) error { return i.first.Ready(ctx) }

// Reset discards the images of a previous definition of the pod.
func (i *Images) Reset() {
	i.first, i.taken = nil, map[string]bool{}
	i.Waiter.reset()
}

// PullError returns why a first pull has not succeeded yet; nil if none has failed.
func (i *Images) PullError() error {
	if i.first == nil {
		return nil
	}
	return i.first.BackOffError()
}

// present returns a container's image if the container must get it from the first pulls, and its
// first pull has succeeded.
func (i *Images) present(name string) (imagepull.Result, bool) {
	if !i.fromFirst(name) {
		return imagepull.Result{}, false
	}
	return i.first.Present(name)
}

// fromFirst reports whether a container must get its image from the first pulls.
func (i *Images) fromFirst(name string) bool { return i.first != nil && !i.taken[name] }

// pullsFor returns the pulls for a container's image, and a function that ends them. The first start
// uses the first pulls; a restart requests the image again.
func (i *Images) pullsFor(ctx context.Context, name string, plan imagepull.Plan) (*imagepull.Pulls, func()) {
	first := i.fromFirst(name)
	i.taken[name] = true
	if first {
		return i.first, func() {}
	}
	pulls := i.puller.Start(ctx, plan.Only(name))
	return pulls, pulls.Stop
}

// A Turn determines when a container is started, once all actions before it have been executed.
type Turn int

const (
	Now           Turn = iota
	AfterOthers        // after all other containers of this pass, because the image pull is in back-off
	Later              // in a later pass; the following containers need not wait for this container's image
	LaterWithRest      // in a later pass, with all following containers, because the kubelet starts them in order
)

// ImageWaiter waits for the images of containers. A command's implementation (ForegroundImages) waits when
// it is the container's turn. A supervisor's implementation (BackgroundImages) never blocks; it wakes the
// worker.
type ImageWaiter interface {
	// Waits reports whether turn or take may wait for a container's own image.
	Waits(name string) bool
	// Turn decides when a container is started. If last is true, it never returns AfterOthers. An error
	// ends the pass.
	Turn(ctx context.Context, a lifecycle.Action, last bool) (Turn, error)
	// present returns a container's image if take would return it without waiting. It emits no event.
	present(name string) (imagepull.Result, bool)
	// take returns the image of a container or of an image volume (imagepull.VolumeImage).
	take(ctx context.Context, name string) (imagepull.Result, error)
	// reset discards pending waits for images.
	reset()
}

// ForegroundImages waits for images without the pod's lock, because a pull may take long and other commands
// may act on the pod.
type ForegroundImages struct{ starter *Starter }

func (i ForegroundImages) reset() {}

// Waits returns true until the first pull of the image has finished.
func (i ForegroundImages) Waits(name string) bool {
	return i.starter.Images.fromFirst(name) && !i.starter.Images.first.Done(name)
}

func (i ForegroundImages) present(name string) (imagepull.Result, bool) {
	return i.starter.Images.present(name)
}

// Turn waits for the first attempt of the first pull of an app container's image. If the attempt fails,
// the next container is started first, as in the kubelet, which retries this one later.
func (i ForegroundImages) Turn(ctx context.Context, a lifecycle.Action, last bool) (Turn, error) {
	if last || !i.Waits(a.Container) || lifecycle.FindContainer(i.starter.pod.Spec(), a.Container).Init {
		return Now, nil
	}
	backsOff := false
	err := i.starter.lease.Do(ctx, i.starter.lease.StartedByOther, func(ctx context.Context) error {
		backsOff = i.starter.Images.first.BacksOff(ctx, a.Container)
		return nil
	})
	if backsOff {
		return AfterOthers, err
	}
	return Now, err
}

func (i ForegroundImages) take(ctx context.Context, name string) (image imagepull.Result, err error) {
	wait := func(ctx context.Context) (err error) {
		pulls, end := i.starter.Images.pullsFor(ctx, name, i.starter.pod.Plan.Images)
		defer end()
		image, err = pulls.Wait(ctx, name)
		return err
	}
	if i.starter.Images.fromFirst(name) && !i.Waits(name) { // the pull has finished
		err = wait(ctx)
	} else {
		err = i.starter.lease.Do(ctx, i.starter.lease.StartedByOther, wait)
	}
	return image, err
}
