package imagepull

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/identity"
)

// lookEvery is how often the pulls under way are looked at: as often as a line
// on a terminal is redrawn. A query takes containerd about 1 ms.
const lookEvery = 250 * time.Millisecond

// errStalled is the cause of a pull that is given up because nothing comes.
var errStalled = errors.New("the pull has stalled")

// watcher tells how far pulls are, and gives those up that stall. All of it is
// read from containerd's content service, which is on the CRI's own socket.
type watcher struct {
	content contentapi.ContentClient // nil where there is no connection
	blind   atomic.Bool              // the runtime does not show its store
	stall   time.Duration            // 0: nothing is given up
	tell    event.Sink               // may be nil

	mu      sync.Mutex
	pulls   []*watched // in the order of their begin
	stop    chan struct{}
	stopped chan struct{}
}

// watched is a pull under way.
type watched struct {
	*transfer
	id     identity.Pod
	who    Container
	cancel context.CancelCauseFunc
	failed error // why it was given up
}

func newWatcher(conn grpc.ClientConnInterface, stall time.Duration, tell event.Sink) *watcher {
	w := &watcher{stall: stall, tell: tell}
	if conn != nil {
		w.content = contentapi.NewContentClient(conn)
	}
	return w
}

// begin watches a pull until end, which returns why it was given up, if it was.
func (w *watcher) begin(ctx context.Context, plan Plan, image Image) (context.Context, func() error) {
	if w.tell == nil && (w.stall <= 0 || w.content == nil) {
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
	w.say(p, event.Pull{Image: p.who.Image, State: event.PullEnded})
	failed := p.failed
	w.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
	return failed
}

// run looks until it is told to stop.
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

// round looks once, tells what it sees and gives up what stalls.
func (w *watcher) round(ctx context.Context) {
	l, err := w.look(ctx)
	if err != nil {
		return // the next look may see more
	}
	w.mu.Lock()
	pulls := slices.Clone(w.pulls)
	w.mu.Unlock()
	if l.known {
		w.findManifests(ctx, pulls, l)
	}
	for _, p := range pulls {
		present := w.present(ctx, p.missing(l))
		w.mu.Lock()
		p.see(l, present)
		if slices.Contains(w.pulls, p) {
			w.say(p, p.progress(p.who.Image, l.at))
			if stalled := p.stalled(l.at); w.stall > 0 && stalled >= w.stall && p.failed == nil {
				p.failed = p.stallError(stalled)
				p.cancel(errStalled)
			}
		}
		w.mu.Unlock()
	}
}

// say tells how far a pull is.
func (w *watcher) say(p *watched, pull event.Pull) {
	if w.tell == nil {
		return
	}
	w.tell(event.Event{Time: time.Now(), Type: event.Normal, Reason: event.PullProgress, Message: pull.String(),
		Namespace: p.id.Namespace, Pod: p.id.Name, UID: p.id.UID, FieldPath: p.who.FieldPath, Pull: &pull})
}

// look lists the ingests. A runtime without this service is not asked again.
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

// findManifests looks for the manifests of pulls that lack theirs.
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
				continue // the next look may find them
			}
			found[p.from] = list
		}
		p.offer(list, l, taken)
		if p.manifest != "" && p.sizes == nil {
			p.sizes = w.sizes(ctx, p.manifest)
		}
	}
}

// The labels that containerd gives what it has fetched.
const (
	labelSource   = "containerd.io/distribution.source."
	labelChildren = "containerd.io/gc.ref.content."
)

// manifests lists the manifests that are here of a repository.
func (w *watcher) manifests(ctx context.Context, from source) ([]manifest, error) {
	var out []manifest
	filter := `labels."` + labelSource + from.host + `",labels."` + labelChildren + `config"`
	err := w.list(ctx, []string{filter}, func(i *contentapi.Info) {
		if !slices.Contains(strings.Split(i.Labels[labelSource+from.host], ","), from.repository) {
			return
		}
		m := manifest{digest: i.Digest, updated: i.CreatedAt.AsTime()}
		if updated := i.UpdatedAt.AsTime(); updated.After(m.updated) { // containerd 1.6 does not send it
			m.updated = updated
		}
		for key, digest := range i.Labels {
			if strings.HasPrefix(key, labelChildren) {
				m.blobs = append(m.blobs, digest)
			}
		}
		out = append(out, m)
	})
	return out, err
}

// present picks those of some blobs that are here whole.
func (w *watcher) present(ctx context.Context, digests []string) []string {
	if len(digests) == 0 {
		return nil
	}
	var filters, out []string
	for _, digest := range digests {
		filters = append(filters, `digest=="`+digest+`"`)
	}
	// What is not seen now is at the next look.
	_ = w.list(ctx, filters, func(i *contentapi.Info) { out = append(out, i.Digest) })
	return out
}

// list calls the content service's List.
func (w *watcher) list(ctx context.Context, filters []string, each func(*contentapi.Info)) error {
	stream, err := w.content.List(ctx, &contentapi.ListContentRequest{Filters: filters})
	if err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, i := range answer.Info {
			each(i)
		}
	}
}

// maxManifest bounds an image's manifest, in bytes: the limit that registries have.
const maxManifest = 4 << 20

// manifestJSON is what sizes reads of an image's manifest (OCI image-spec).
type manifestJSON struct {
	Config *blobJSON  `json:"config"`
	Layers []blobJSON `json:"layers"`
}

type blobJSON struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"` // bytes
}

// sizes reads from a manifest how long its blobs are; nil if it can't be read.
func (w *watcher) sizes(ctx context.Context, digest string) map[string]int64 {
	stream, err := w.content.Read(ctx, &contentapi.ReadContentRequest{Digest: digest, Size: 0})
	if err != nil {
		return nil
	}
	var data []byte
	for len(data) <= maxManifest {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil
		}
		data = append(data, answer.Data...)
	}
	var doc manifestJSON
	if json.Unmarshal(data, &doc) != nil || doc.Config == nil {
		return nil
	}
	sizes := map[string]int64{doc.Config.Digest: doc.Config.Size}
	for _, l := range doc.Layers {
		sizes[l.Digest] = l.Size
	}
	return sizes
}
