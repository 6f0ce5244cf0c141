package imagepull

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
)

// lookEvery is the interval between looks at the pulls in progress. podrun redraws a line on a
// terminal at the same interval. Each look takes about 1 ms of containerd's CPU time.
const lookEvery = 250 * time.Millisecond

// errStalled is the cause if podrun cancels a pull because no data arrives.
var errStalled = errors.New("the pull has stalled")

// errExcess is the cause if podrun cancels a pull because of too much data.
var errExcess = errors.New("the registry sends more data than the image has")

// watcher reports the progress of pulls, and cancels pulls that stall or that receive more data than
// the image has. It reads containerd's
// content service, which is available on the same socket as the CRI. If a runtime does not have
// this service, watcher reports only the elapsed time.
type watcher struct {
	content contentapi.ContentClient // nil if there is no connection
	images  imagesapi.ImagesClient   // nil if there is no connection

	// set if the runtime does not provide access to its content store
	blind atomic.Bool
	// 0 means that the watcher never cancels a pull
	stall time.Duration
	tell  event.Sink // receives the progress events; may be nil

	mu      sync.Mutex
	ingests map[string]ingest // ingests at the last look, by ref
	moved   time.Time         // time at which one of the ingests last changed
	pulls   []*watched        // ordered by the time at which they began
	stop    chan struct{}
	stopped chan struct{}
}

// watched is a pull that is in progress.
type watched struct {
	*transfer
	id     identity.Pod
	who    Container
	cancel context.CancelCauseFunc
	failed error // reason for which the watcher canceled the pull; nil if it did not
}

func newWatcher(client *cri.Client, stall time.Duration, tell event.Sink) *watcher {
	w := &watcher{stall: stall, tell: tell}
	if conn := client.Images.Conn(); conn != nil {
		w.content, w.images = contentapi.NewContentClient(conn), imagesapi.NewImagesClient(conn)
	}
	return w
}

// begin watches a pull until the returned function is called. The returned function returns the
// reason for which the watcher canceled the pull, or nil if it did not cancel it.
func (w *watcher) begin(ctx context.Context, plan Plan, image Image) (context.Context, func() error) {
	if w.tell == nil && w.content == nil {
		return ctx, func() error { return nil }
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p := &watched{transfer: newTransfer(image.Ref, time.Now()), id: plan.ID, who: image.Containers[0], cancel: cancel}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pulls = append(w.pulls, p)
	if len(w.pulls) == 1 {
		w.stop, w.stopped = make(chan struct{}), make(chan struct{})
		go w.run(w.stop, w.stopped)
	}
	return ctx, func() error { return w.end(p) }
}

func (w *watcher) end(p *watched) error {
	p.cancel(nil)
	w.mu.Lock()
	w.pulls = slices.DeleteFunc(w.pulls, func(other *watched) bool { return other == p })
	stopped := w.stopped
	if len(w.pulls) == 0 {
		close(w.stop)
	} else {
		stopped = nil
	}
	w.report(p, event.Pull{Image: p.who.Image, State: event.PullEnded})
	failed := p.failed
	w.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
	w.discard(failed)
	return failed
}

// run observes the store periodically until it is stopped.
func (w *watcher) run(stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "containerd-namespace", "k8s.io"))
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			w.round(ctx)
		}
	}
}

// round observes the store once, reports progress and cancels stalled pulls.
func (w *watcher) round(ctx context.Context) {
	l, err := w.look(ctx)
	if err != nil {
		// The error is ignored, because the next look may succeed.
		return
	}
	w.mu.Lock()
	pulls := slices.Clone(w.pulls)
	w.mu.Unlock()
	if l.known {
		w.follow(l)
		w.findManifests(ctx, pulls, l)
	}
	for _, p := range pulls {
		present := w.present(ctx, p.missing(l))
		w.mu.Lock()
		p.see(l, present)
		if slices.Contains(w.pulls, p) {
			w.report(p, p.progress(p.who.Image, l.at))
		}
		w.mu.Unlock()
		w.giveUp(ctx, p, l)
		w.refuseExcess(p, pulls)
	}
}

// giveUp cancels a pull that has stalled, or whose registry does not respond.
//
// While another pull receives content, no pull counts as stalled. containerd limits the requests of
// all pulls together (max_concurrent_downloads, core/remotes/docker), so one pull may wait for
// another although its own ingests are open. Therefore podrun may detect a stall late, but it never
// cancels a pull that only waits.
func (w *watcher) giveUp(ctx context.Context, p *watched, l look) {
	if w.stall <= 0 || !l.known {
		return
	}
	w.mu.Lock()
	quiet, failed := l.at.Sub(w.moved), p.failed
	stalled, waits := min(p.stalled(l.at), quiet), min(p.unanswered(l.at), quiet)
	w.mu.Unlock()
	if failed != nil || max(stalled, waits) < w.stall || waits > 0 && w.mayUnpack(ctx, p.from) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.pulls, p) {
		return
	}
	if p.failed = p.stallError(stalled); waits > 0 {
		p.failed = fmt.Errorf("registry %s has not answered for %s", p.registry, waits.Round(time.Second))
	}
	p.cancel(errStalled)
}

// follow records whether content in the store has grown.
func (w *watcher) follow(l look) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(l.ingests, w.ingests) {
		w.moved = l.at
	}
	w.ingests = l.ingests
}

// report reports the progress of a pull.
func (w *watcher) report(p *watched, pull event.Pull) {
	if w.tell == nil {
		return
	}
	w.tell(event.Event{Time: time.Now(), Type: event.Normal, Reason: event.PullProgress, Message: pull.String(),
		Namespace: p.id.Namespace, Pod: p.id.Name, UID: p.id.UID, FieldPath: p.who.FieldPath, Pull: &pull})
}

// look lists the ingests. If the runtime does not have the content service, look queries it
// only once.
func (w *watcher) look(ctx context.Context) (look, error) {
	l := look{at: time.Now(), ingests: map[string]ingest{}}
	if w.content == nil || w.blind.Load() {
		return l, nil
	}
	answer, err := w.content.ListStatuses(ctx, &contentapi.ListStatusesRequest{})
	if status.Code(err) == codes.Unimplemented {
		w.blind.Store(true)
		return l, nil
	}
	for _, s := range answer.GetStatuses() {
		l.ingests[s.Ref] = ingest{ref: s.Ref, offset: s.Offset}
	}
	l.known = err == nil
	return l, err
}

// findManifests searches the store for the manifests of pulls that have none yet.
func (w *watcher) findManifests(ctx context.Context, pulls []*watched, l look) {
	taken, found := map[string]bool{}, map[source][]manifest{}
	for _, p := range pulls {
		taken[p.manifest] = true
		p.shared = p.shared || slices.ContainsFunc(pulls, func(other *watched) bool { return other != p && other.from == p.from })
	}
	for _, p := range pulls {
		if !p.wantsManifests() || p.from.host == "" {
			continue
		}
		list, asked := found[p.from]
		if !asked {
			var err error
			if list, err = w.manifests(ctx, p.from); err != nil {
				// The error is ignored, because the next look may find the manifests.
				continue
			}
			found[p.from] = list
		}
		p.offer(list, l, taken)
		if p.manifest != "" && p.sizes == nil {
			p.sizes = w.sizes(ctx, p.manifest)
		}
	}
}
