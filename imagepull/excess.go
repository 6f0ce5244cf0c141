package imagepull

import (
	"context"
	"fmt"
	"slices"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	"google.golang.org/grpc/metadata"
)

// maxManifestIngest limits the size of a manifest or an index while containerd fetches it, in bytes:
// podrun knows its declared size only later. Registries limit it to maxManifest.
const maxManifestIngest = 2 * maxManifest

// excess is the error for a pull whose registry sends more data than the manifest declares. containerd
// compares the size only when the data ends, so a registry could fill the disk.
type excess struct {
	ingest ingest
	limit  int64 // bytes
}

func (e excess) Error() string {
	if e.ingest.ofImage() {
		return fmt.Sprintf("the registry sends more than %d MiB for the manifest %s", e.limit>>20, e.ingest.digest())
	}
	return fmt.Sprintf("the registry sends more than the %d bytes that the manifest declares for %s", e.limit, e.ingest.digest())
}

// refuseExcess cancels a pull that receives more data than the image has. If several pulls of its
// repository are in progress, it cancels all of them, because it is not known which of them receives
// the data.
func (w *watcher) refuseExcess(p *watched, pulls []*watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.excess == nil {
		return
	}
	for _, other := range pulls {
		if other.from == p.from && other.failed == nil && slices.Contains(w.pulls, other) {
			other.failed = *p.excess
			other.cancel(errExcess)
		}
	}
}

// discardWithin limits discard.
const discardWithin = 5 * time.Second

// discard removes the data that containerd keeps of a pull that was canceled because of it. The next
// attempt would resume with this data. If the removal fails, containerd's garbage collector removes the
// data later.
func (w *watcher) discard(failed error) {
	e, ok := failed.(excess)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), "containerd-namespace", "k8s.io"), discardWithin)
	defer cancel()
	_, _ = w.content.Abort(ctx, &contentapi.AbortRequest{Ref: e.ingest.ref})
}
