package start

import (
	"context"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// Images manages the images of a pod's containers. The first pulls begin when the pod is admitted; later
// pulls are for restarts.
type Images struct {
	puller *node.Puller // nil for an operation that starts no containers
	first  *imagepull.Pulls
	taken  map[string]bool // the containers that have used the result of their first pull
	Waiter ImageWaiter
}

// Begin starts the first pulls, unless earlier contains finished pulls of the same images. The caller must call end.
func (i *Images) Begin(ctx context.Context, plan imagepull.Plan, earlier *imagepull.Pulls) (end func()) {
	first := earlier.For(plan)
	if first == nil {
		first = i.puller.Start(ctx, plan)
	}
	i.first = first
	// this stops the first pulls even if Reset was called in between
	return first.Stop
}

// Forget stops the delivery of pull events to the pod's journal.
func (i *Images) Forget(j *store.Journal) {
	if i.puller != nil {
		i.puller.Forget(j)
	}
}

// Ready waits until the first pulls have finished. It returns the error of a pull.
func (i *Images) Ready(ctx context.Context) error { return i.first.Ready(ctx) }

// Attempted waits until each of the first pulls has finished or has failed once. It returns the error of a
// pull that has not succeeded.
func (i *Images) Attempted(ctx context.Context) error { return i.first.Attempted(ctx) }

// Reset discards the images of a previous definition of the pod.
func (i *Images) Reset() {
	i.first = nil
	i.taken = map[string]bool{}
	i.Waiter.reset()
}

// PullError returns the error of a first pull that has failed and not succeeded yet, or nil if
// there is none.
func (i *Images) PullError() error {
	if i.first == nil {
		return nil
	}
	return i.first.BackOffError()
}

// present returns a container's image if the container must use the first pulls and its own pull has succeeded.
func (i *Images) present(name string) (imagepull.Result, bool) {
	if !i.fromFirst(name) {
		return imagepull.Result{}, false
	}
	return i.first.Present(name)
}

// fromFirst reports whether a container must take its image from the first pulls.
func (i *Images) fromFirst(name string) bool { return i.first != nil && !i.taken[name] }

// pullsFor returns the pulls for a container's image, and a function that ends them. The first start
// of a container uses the first pulls; a restart requests the image again.
func (i *Images) pullsFor(ctx context.Context, name string, plan imagepull.Plan) (*imagepull.Pulls, func()) {
	first := i.fromFirst(name)
	i.taken[name] = true
	if first {
		return i.first, func() {}
	}
	pulls := i.puller.Start(ctx, plan.Only(name))
	return pulls, pulls.Stop
}

// A Turn determines when podrun starts a container after it has executed all preceding actions.
type Turn int

const (
	Now Turn = iota
	// after all other containers of this pass, because the pull of its image is in back-off
	AfterOthers
	Later // in a later pass; the following containers need not wait for this container's image
	// in a later pass, together with all following containers, because the kubelet starts containers
	// in order
	LaterWithRest
)

// ImageWaiter waits for the images of containers. The implementation of commands (ForegroundImages)
// blocks when a container is the next one to start, until its image is available. The implementation of
// supervisors (BackgroundImages) never blocks, and wakes the worker when an image is available.
type ImageWaiter interface {
	// Waits reports whether Turn or take may block until a container's own image is available.
	Waits(name string) bool
	// Turn decides when a container is started. If last is true, it never returns AfterOthers. An
	// error ends the pass.
	Turn(ctx context.Context, a lifecycle.Action, last bool) (Turn, error)
	// present returns a container's image if take would return it without waiting. It emits no event.
	present(name string) (imagepull.Result, bool)
	// take returns the image of a container or of an image volume (imagepull.VolumeImage).
	take(ctx context.Context, name string) (imagepull.Result, error)
	// reset discards pending waits for images.
	reset()
}

// ForegroundImages waits for images without holding the pod's lock. A pull may take a long time,
// and other commands may need to act on the pod.
type ForegroundImages struct{ starter *Starter }

func (i ForegroundImages) reset() {}

// Waits returns true until the first pull of the image has finished.
func (i ForegroundImages) Waits(name string) bool {
	return i.starter.Images.fromFirst(name) && !i.starter.Images.first.Done(name)
}

func (i ForegroundImages) present(name string) (imagepull.Result, bool) {
	return i.starter.Images.present(name)
}

// Turn waits for the first attempt to pull an app container's image, if the pull is one of the first
// pulls. If the attempt fails, podrun starts the next container first and this one later, as the
// kubelet does.
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
	// The pull has already finished.
	if i.starter.Images.fromFirst(name) && !i.Waits(name) {
		err = wait(ctx)
	} else {
		err = i.starter.lease.Do(ctx, i.starter.lease.StartedByOther, wait)
	}
	return image, err
}
