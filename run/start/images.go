package start

import (
	"context"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// Images are those of a pod's containers: the pulls that begin when the pod is admitted, and
// the later ones, which restarts request.
type Images struct {
	puller *node.Puller // nil for an operation that starts nothing
	first  *imagepull.Pulls
	taken  map[string]bool // the containers that have had their image from first
	Waiter ImageWaiter
}

// Begin starts the first pulls. The caller calls end.
func (i *Images) Begin(ctx context.Context, plan imagepull.Plan) (end func()) {
	first := i.puller.Start(ctx, plan)
	i.first = first
	return first.Stop // also after a reset
}

// Forget ends that the events of pulls go to the pod's journal.
func (i *Images) Forget(j *store.Journal) {
	if i.puller != nil {
		i.puller.Forget(j)
	}
}

// Ready waits until the first pulls have ended; the error is that of a pull.
func (i *Images) Ready(ctx context.Context) error { return i.first.Ready(ctx) }

// Reset forgets the images of a definition that the pod no longer has.
func (i *Images) Reset() {
	i.first, i.taken = nil, map[string]bool{}
	i.Waiter.reset()
}

// Trouble is why a first pull has not succeeded yet; nil if none has failed.
func (i *Images) Trouble() error {
	if i.first == nil {
		return nil
	}
	return i.first.Trouble()
}

// fromFirst reports whether a container is to have its image from the first pulls.
func (i *Images) fromFirst(name string) bool { return i.first != nil && !i.taken[name] }

// pullsFor returns the pulls that a container's image comes from, and the function that ends
// them. The first start uses the first pulls; a restart requests the image again.
func (i *Images) pullsFor(ctx context.Context, name string, plan imagepull.Plan) (*imagepull.Pulls, func()) {
	first := i.fromFirst(name)
	i.taken[name] = true
	if first {
		return i.first, func() {}
	}
	pulls := i.puller.Start(ctx, plan.Only(name))
	return pulls, pulls.Stop
}

// A Turn is what becomes of the start of a container when all actions before it are done.
type Turn int

const (
	Now           Turn = iota
	AfterOthers        // after all others of this pass: the image's pull is backed off from
	Later              // in another pass: its image is awaited, and later containers need not wait for it
	LaterWithRest      // in another pass, as all later containers: the kubelet starts them in order
)

// ImageWaiter waits for the images of containers. Its implementations are a command's
// (ImagesInTurn), which waits when it is the container's turn, and a supervisor's
// (ImagesBeside), which never waits and is woken.
type ImageWaiter interface {
	// Waits reports whether turn or take may wait for a container's own image.
	Waits(name string) bool
	// Turn decides when a container is started; last means that AfterOthers is no choice. An
	// error ends the pass.
	Turn(ctx context.Context, a lifecycle.Action, last bool) (Turn, error)
	// take returns the image of a container or of an image volume (imagepull.VolumeImage).
	take(ctx context.Context, name string) (imagepull.Result, error)
	// reset forgets the images that are waited for.
	reset()
}

// ImagesInTurn waits for images without the pod's lock: a pull may take long, and other
// commands may act on the pod.
type ImagesInTurn struct{ w *Starter }

func (i ImagesInTurn) reset() {}

// Waits is true until the first pull of the image has ended.
func (i ImagesInTurn) Waits(name string) bool {
	return i.w.Images.fromFirst(name) && !i.w.Images.first.Done(name)
}

// Turn waits for the first try of the first pull of an app container's image. If it fails,
// the kubelet continues with the next container, and retries this one later.
func (i ImagesInTurn) Turn(ctx context.Context, a lifecycle.Action, last bool) (Turn, error) {
	if last || !i.Waits(a.Container) || lifecycle.FindContainer(i.w.pod.Spec(), a.Container).Init {
		return Now, nil
	}
	backsOff := false
	err := i.w.lease.Do(ctx, i.w.lease.StartedByOther, func(ctx context.Context) error {
		backsOff = i.w.Images.first.BacksOff(ctx, a.Container)
		return nil
	})
	if backsOff {
		return AfterOthers, err
	}
	return Now, err
}

func (i ImagesInTurn) take(ctx context.Context, name string) (image imagepull.Result, err error) {
	wait := func(ctx context.Context) (err error) {
		pulls, end := i.w.Images.pullsFor(ctx, name, i.w.pod.Plan.Images)
		defer end()
		image, err = pulls.Wait(ctx, name)
		return err
	}
	if i.w.Images.fromFirst(name) && !i.Waits(name) { // the pull has ended
		err = wait(ctx)
	} else {
		err = i.w.lease.Do(ctx, i.w.lease.StartedByOther, wait)
	}
	return image, err
}
