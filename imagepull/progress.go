package imagepull

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/podrun/podrun/internal/event"
)

// rateWindow is the time over which podrun averages the rate of a pull. It is long enough to hide
// that containerd reports data in steps of 1 MiB.
const rateWindow = 5 * time.Second

// ingest is a blob that containerd is fetching. containerd's fetcher assigns its ref, which has one
// of the forms layer-sha256:…, config-sha256:…, manifest-sha256:…, index-sha256:….
type ingest struct {
	ref    string
	offset int64 // number of bytes received
}

// digest returns the digest of the blob.
func (i ingest) digest() string {
	_, digest, _ := strings.Cut(i.ref, "-")
	return digest
}

// ofImage reports whether the ingest is a manifest or an index. podrun cannot determine to which
// image such an ingest belongs until it is complete.
func (i ingest) ofImage() bool {
	return strings.HasPrefix(i.ref, "manifest-") || strings.HasPrefix(i.ref, "index-")
}

// manifest is an image's manifest in containerd's store.
type manifest struct {
	digest  string
	updated time.Time
	blobs   []string // digests of the layers and the config
}

// source is containerd's label for the repository from which content came. Its host has no
// port.
type source struct{ host, repository string }

// sourceOf returns the source of a reference. If it cannot parse the reference, it returns an empty
// source.
func sourceOf(ref string) source {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return source{}
	}
	u, err := url.Parse("dummy://" + named.Name())
	if err != nil {
		return source{}
	}
	return source{host: u.Hostname(), repository: strings.Trim(u.Path, "/")}
}

// registryOf returns the registry of a reference, with its port. If it cannot parse the reference,
// it returns the reference itself.
func registryOf(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	return reference.Domain(named)
}

// look is one observation of the content store.
type look struct {
	at      time.Time
	ingests map[string]ingest // by ref
	// whether the runtime provides access to its content store
	known bool
}

// open returns the digests of the blobs that containerd is fetching.
func (l look) open() map[string]bool {
	out := map[string]bool{}
	for _, i := range l.ingests {
		out[i.digest()] = true
	}
	return out
}

// transfer is one call of PullImage, as podrun observes it in the content store. containerd does
// not report to which call an ingest belongs. podrun attributes the blobs of a manifest to a pull
// if the manifest belongs to the pull's repository and arrived after the pull began. If the pull
// resumes an earlier one, the manifest may be older, but some of its blobs must be in transfer.
type transfer struct {
	from     source
	registry string // host of the registry, with its port
	begun    time.Time
	// shared is true if another pull of the same repository was in progress at the same time. It is
	// then unknown which manifest belongs to which pull.
	shared bool

	candidates map[string]manifest // by digest
	// digest of the manifest whose progress podrun reports for this pull
	manifest string
	sure     bool // whether the manifest arrived after this pull began
	// whether podrun has seen the manifest's blobs grow
	going bool
	// sizes of the manifest's blobs, by digest; nil until podrun has read the manifest
	sizes map[string]int64
	// number of received bytes of the manifest's blobs, by digest
	here map[string]int64

	known bool // whether podrun could read the store at least once
	open  int  // number of ingests of this pull at the last look
	// number of consecutive looks in which this pull had no ingests
	idle  int
	moved time.Time
	// offsets of the ingests of all candidates, by ref
	offsets map[string]int64
	// an ingest that is larger than the manifest declares; nil if there is none
	excess  *excess
	samples []sample
}

type sample struct {
	at    time.Time
	bytes int64
}

func newTransfer(ref string, now time.Time) *transfer {
	return &transfer{from: sourceOf(ref), registry: registryOf(ref), begun: now, moved: now,
		candidates: map[string]manifest{}, here: map[string]int64{}, offsets: map[string]int64{}}
}

// wantsManifests reports whether podrun should search the store for the pull's manifest.
func (t *transfer) wantsManifests() bool { return !t.sure || t.shared }

// offer assigns one of the repository's manifests to the transfer. It chooses the first manifest
// that arrived after the transfer began, and that is not assigned to another transfer. Until such a
// manifest arrives, it chooses a manifest that was already present and whose blobs are being
// fetched. If these blobs grow, they belong to this pull. Otherwise, they are leftovers of an
// interrupted pull.
func (t *transfer) offer(found []manifest, l look, taken map[string]bool) {
	slices.SortFunc(found, func(a, b manifest) int { return a.updated.Compare(b.updated) })
	for _, m := range found {
		isNew := !m.updated.Before(t.begun)
		open, moves := t.motion(m, l)
		if !isNew && !open {
			continue
		}
		t.candidates[m.digest] = m
		if !t.sure && !taken[m.digest] && (isNew || moves || t.manifest == "") {
			t.claim(m, taken)
			t.sure = isNew
		}
		t.going = t.going || moves && m.digest == t.manifest
	}
	// The leftovers of an interrupted pull never grow. They are ignored when it is known which
	// blobs this pull fetches.
	if t.sure || t.going {
		maps.DeleteFunc(t.candidates, func(digest string, m manifest) bool { return digest != t.manifest && m.updated.Before(t.begun) })
	}
}

// motion reports whether containerd is fetching blobs of a manifest, and whether one of these
// has grown since the last look.
func (t *transfer) motion(m manifest, l look) (open, moves bool) {
	for ref, i := range l.ingests {
		if slices.Contains(m.blobs, i.digest()) {
			before, known := t.offsets[ref]
			open, moves = true, moves || known && before != i.offset
		}
	}
	return open, moves
}

// claim assigns a manifest to this pull. The pull's progress reports then use it.
func (t *transfer) claim(m manifest, taken map[string]bool) {
	delete(taken, t.manifest)
	taken[m.digest] = true
	t.manifest, t.going, t.sizes, t.here, t.samples = m.digest, false, nil, map[string]int64{}, nil
}

// missing returns the manifest's blobs that were neither complete nor being fetched when podrun
// last saw them.
func (t *transfer) missing(l look) []string {
	open := l.open()
	var out []string
	for _, digest := range slices.Sorted(maps.Keys(t.sizes)) {
		if t.here[digest] < t.sizes[digest] && !open[digest] {
			out = append(out, digest)
		}
	}
	return out
}

// see updates the transfer from a look at the content store. The argument present contains the digests of
// complete blobs.
func (t *transfer) see(l look, present []string) {
	t.known = t.known || l.known
	t.follow(l)
	t.open = 0
	for _, i := range l.ingests {
		digest := i.digest()
		if size, mine := t.sizes[digest]; mine {
			t.open++
			t.here[digest] = min(i.offset, size)
			if i.offset > size {
				t.excess = &excess{ingest: i, limit: size}
			}
		}
	}
	for _, digest := range present {
		t.here[digest] = t.sizes[digest]
	}
	t.idle++
	if t.open > 0 {
		t.idle = 0
	}
	if t.sizes == nil {
		return
	}
	bytes, _ := t.bytes()
	t.samples = append(t.samples, sample{l.at, bytes})
	for len(t.samples) > 2 && l.at.Sub(t.samples[0].at) > rateWindow {
		t.samples = t.samples[1:]
	}
}

// follow records whether content that may belong to this pull has grown.
func (t *transfer) follow(l look) {
	mine := map[string]bool{}
	for _, m := range t.candidates {
		for _, digest := range m.blobs {
			mine[digest] = true
		}
	}
	now := map[string]int64{}
	for ref, i := range l.ingests {
		if mine[i.digest()] || len(t.candidates) == 0 && i.ofImage() {
			now[ref] = i.offset
			// An interrupted pull may have left an ingest that does not grow.
			if before, known := t.offsets[ref]; i.ofImage() && known && before < i.offset && i.offset > maxManifestIngest {
				t.excess = &excess{ingest: i, limit: maxManifestIngest}
			}
		}
	}
	if !maps.Equal(now, t.offsets) {
		t.moved = l.at
	}
	t.offsets = now
}

// stalled returns the time for which no ingest of this pull has grown. It returns 0 if the pull has
// no ingests.
func (t *transfer) stalled(now time.Time) time.Duration {
	if len(t.offsets) == 0 {
		return 0
	}
	return now.Sub(t.moved)
}

// unanswered returns the time for which the registry has not responded, that is, for which no
// content of the image was present or being fetched. It returns 0 if there is such content, or if
// podrun cannot read the store.
func (t *transfer) unanswered(now time.Time) time.Duration {
	if !t.known || len(t.candidates)+len(t.offsets) > 0 {
		return 0
	}
	return now.Sub(t.moved)
}

// bytes returns the number of received bytes and the size of the image in bytes, or 0, 0 if they
// are unknown.
func (t *transfer) bytes() (here, total int64) {
	for digest, size := range t.sizes {
		total += size
		here += t.here[digest]
	}
	return here, total
}

// rate returns the average bytes per second over rateWindow.
func (t *transfer) rate() int64 {
	if len(t.samples) < 2 {
		return 0
	}
	first, last := t.samples[0], t.samples[len(t.samples)-1]
	if took := last.at.Sub(first.at).Seconds(); took > 0 {
		return max(0, int64(float64(last.bytes-first.bytes)/took))
	}
	return 0
}

// progress returns the progress of the pull.
func (t *transfer) progress(image string, now time.Time) event.Pull {
	p := event.Pull{Image: image, State: event.Pulling, Elapsed: now.Sub(t.begun).Truncate(time.Millisecond)}
	switch {
	case !t.known:
		return p
	case t.sizes == nil:
		p.State = event.PullWaits
		return p
	}
	p.Bytes, p.Total = t.bytes()
	p.Rate = t.rate()
	// There is no ingest for a moment between two layers, so one look without ingests is not
	// sufficient.
	if t.open == 0 && (p.Bytes >= p.Total || t.idle > 1) {
		p.State, p.Rate = event.PullUnpacks, 0
	}
	return p
}

// stallError returns the error for a pull that podrun canceled because it had stalled.
func (t *transfer) stallError(stalled time.Duration) error {
	here, total := t.bytes()
	if total == 0 {
		return fmt.Errorf("no data received for %s", stalled.Round(time.Second))
	}
	return fmt.Errorf("no data received for %s, at %.1f of %.1f MB", stalled.Round(time.Second), float64(here)/1e6, float64(total)/1e6)
}
