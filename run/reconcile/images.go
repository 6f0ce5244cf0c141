package reconcile

import (
	"context"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
)

// images are those of a pod's containers: the pulls that begin when the pod is admitted, and
// the later ones, which restarts request.
type images struct {
	puller *node.Puller // nil for an operation that starts nothing
	first  *imagepull.Pulls
	taken  map[string]bool // the containers that have had their image from first
	waiter imageWaiter
}

// begin starts the first pulls. The caller calls end.
func (i *images) begin(ctx context.Context, plan imagepull.Plan) (end func()) {
	first := i.puller.Start(ctx, plan)
	i.first = first
	return first.Stop // also after a reset
}

// ready waits until the first pulls have ended; the error is that of a pull.
func (i *images) ready(ctx context.Context) error { return i.first.Ready(ctx) }

// reset forgets the images of a definition that the pod no longer has.
func (i *images) reset() {
	i.first, i.taken = nil, map[string]bool{}
	i.waiter.reset()
}

// trouble is why a first pull has not succeeded yet; nil if none has failed.
func (i *images) trouble() error {
	if i.first == nil {
		return nil
	}
	return i.first.Trouble()
}

// pending reports whether a container's first pull has not ended.
func (i *images) pending(name string) bool {
	return i.first != nil && !i.taken[name] && !i.first.Done(name)
}

// pullsFor returns the pulls that a container's image comes from, and the function that ends
// them. The first start uses the first pulls; a restart requests the image again.
func (i *images) pullsFor(ctx context.Context, name string, plan imagepull.Plan) (*imagepull.Pulls, func()) {
	if i.first != nil && !i.taken[name] {
		i.taken[name] = true
		return i.first, func() {}
	}
	i.taken[name] = true
	pulls := i.puller.Start(ctx, plan.Only(name))
	return pulls, pulls.Stop
}

// A turn is what becomes of the start of a container when all actions before it are done.
type turn int

const (
	startNow  turn = iota
	startLast      // after all others of this pass: the image's pull is backed off from
	startNext      // in another pass: its image is awaited, and later containers need not wait for it
	startStop      // in another pass, as all later containers: the kubelet starts them in order
)

// imageWaiter waits for the images of containers. Its implementations are a command's
// (imagesInTurn), which waits when it is the container's turn, and a supervisor's
// (imagesBeside), which never waits and is woken.
type imageWaiter interface {
	// waits reports whether turn or take may wait for a container's own image.
	waits(name string) bool
	// turn decides when a container is started; last means that startLast is no choice. An
	// error ends the pass.
	turn(ctx context.Context, a lifecycle.Action, last bool) (turn, error)
	// take returns the image of a container or of an image volume (imagepull.VolumeImage).
	take(ctx context.Context, name string) (imagepull.Result, error)
	// reset forgets the images that are waited for.
	reset()
}

// imagesInTurn waits for images without the pod's lock: a pull may take long, and other
// commands may act on the pod.
type imagesInTurn struct{ w *starter }

func (i imagesInTurn) reset() {}

func (i imagesInTurn) waits(name string) bool { return i.w.images.pending(name) }

// turn waits for the first try of the first pull of an app container's image. If it fails,
// the kubelet continues with the next container, and retries this one later.
func (i imagesInTurn) turn(ctx context.Context, a lifecycle.Action, last bool) (turn, error) {
	if last || !i.waits(a.Container) || lifecycle.FindContainer(i.w.pod.Spec(), a.Container).Init {
		return startNow, nil
	}
	backsOff := false
	err := i.w.lease.Do(ctx, i.w.lease.StartedByOther, func(ctx context.Context) error {
		backsOff = i.w.images.first.BacksOff(ctx, a.Container)
		return nil
	})
	if backsOff {
		return startLast, err
	}
	return startNow, err
}

func (i imagesInTurn) take(ctx context.Context, name string) (image imagepull.Result, err error) {
	here := i.w.images.first != nil && !i.w.images.taken[name] && !i.waits(name)
	wait := func(ctx context.Context) (err error) {
		pulls, end := i.w.images.pullsFor(ctx, name, i.w.pod.Plan.Images)
		defer end()
		image, err = pulls.Wait(ctx, name)
		return err
	}
	if here {
		err = wait(ctx)
	} else {
		err = i.w.lease.Do(ctx, i.w.lease.StartedByOther, wait)
	}
	return image, err
}
