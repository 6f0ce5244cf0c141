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

// rateWindow is the interval over which a pull's rate is averaged. It is long enough to
// smooth containerd's steps of 1 MiB.
const rateWindow = 5 * time.Second

// ingest is a blob that containerd is fetching. Its ref is assigned by the fetcher:
// layer-sha256:…, config-sha256:…, manifest-sha256:…, index-sha256:….
type ingest struct {
	ref    string
	offset int64 // number of bytes received
}

// digest returns the digest of the blob.
func (i ingest) digest() string {
	_, digest, _ := strings.Cut(i.ref, "-")
	return digest
}

// ofImage reports whether the ingest is a manifest or an index. Until the ingest is complete, it is
// unknown to which image it belongs.
func (i ingest) ofImage() bool {
	return strings.HasPrefix(i.ref, "manifest-") || strings.HasPrefix(i.ref, "index-")
}

// manifest is an image's manifest in containerd's store.
type manifest struct {
	digest  string
	updated time.Time
	blobs   []string // digests of its layers and its config
}

// source is containerd's label for the repository of content; its host has no port.
type source struct{ host, repository string }

// sourceOf returns the source of a reference, or an empty one if it cannot be parsed.
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

// registryOf returns the registry of a reference, with its port, or the reference itself if
// it cannot be parsed.
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
	known   bool              // false if the runtime does not expose its store
}

// open returns the digests of the blobs that are being fetched.
func (l look) open() map[string]bool {
	out := map[string]bool{}
	for _, i := range l.ingests {
		out[i.digest()] = true
	}
	return out
}

// transfer is one call of PullImage, as observed from outside. containerd does not report to which
// call an ingest belongs. podrun attributes blobs to a pull if a manifest of the pull's repository
// lists them, and the manifest arrived after the pull began or, if the pull resumes an earlier one,
// its blobs are being fetched.
type transfer struct {
	from     source
	registry string // includes the port
	begun    time.Time
	// shared is true if another pull of the same repository was in progress at the same time: it is
	// then unknown which manifest belongs to which pull.
	shared bool

	candidates map[string]manifest // by digest
	manifest   string              // the manifest whose progress is reported for this pull
	sure       bool                // the manifest arrived after this pull began
	going      bool                // its blobs were seen to grow
	sizes      map[string]int64    // sizes of its blobs, by digest; nil until the manifest was read
	here       map[string]int64    // received bytes of its blobs, by digest

	known   bool // true once the store has been readable
	open    int  // number of its ingests at the last look
	idle    int  // number of consecutive looks without ingests
	moved   time.Time
	offsets map[string]int64 // offsets of the ingests of all candidates, by ref
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

// wantsManifests reports whether to search the store for the pull's manifest.
func (t *transfer) wantsManifests() bool { return !t.sure || t.shared }

// offer assigns one of the repository's manifests to the transfer. It chooses the first manifest
// that arrived after the transfer began and that is not assigned to another transfer. Until such a
// manifest arrives, it chooses one that was already present and whose blobs are being fetched: if
// these blobs grow, they belong to this pull; otherwise an interrupted pull left them behind.
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
	// The leftovers of an interrupted pull never grow: ignore them once it is known which blobs
	// this pull fetches.
	if t.sure || t.going {
		maps.DeleteFunc(t.candidates, func(digest string, m manifest) bool { return digest != t.manifest && m.updated.Before(t.begun) })
	}
}

// motion reports whether any blobs of a manifest are being fetched, and whether one of them
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

// claim assigns a manifest to this pull, for its progress reports.
func (t *transfer) claim(m manifest, taken map[string]bool) {
	delete(taken, t.manifest)
	taken[m.digest] = true
	t.manifest, t.going, t.sizes, t.here, t.samples = m.digest, false, nil, map[string]int64{}, nil
}

// missing returns the blobs that, as far as is known, are neither complete nor being
// fetched.
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

// see processes a look. present contains the digests of complete blobs.
func (t *transfer) see(l look, present []string) {
	t.known = t.known || l.known
	t.follow(l)
	t.open = 0
	for _, i := range l.ingests {
		digest := i.digest()
		if size, mine := t.sizes[digest]; mine {
			t.open++
			t.here[digest] = min(i.offset, size)
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

// follow records whether any content that may belong to this pull has grown.
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
		}
	}
	if !maps.Equal(now, t.offsets) {
		t.moved = l.at
	}
	t.offsets = now
}

// stalled returns how long no ingest of this pull has grown, or 0 if there are no ingests.
func (t *transfer) stalled(now time.Time) time.Duration {
	if len(t.offsets) == 0 {
		return 0
	}
	return now.Sub(t.moved)
}

// unanswered returns how long the registry has not responded, that is, for how long no content of
// the image has been present or being fetched. It returns 0 if there is such content, or if the
// store cannot be read.
func (t *transfer) unanswered(now time.Time) time.Duration {
	if !t.known || len(t.candidates)+len(t.offsets) > 0 {
		return 0
	}
	return now.Sub(t.moved)
}

// bytes returns the received and the total bytes of the image, or 0, 0 if unknown.
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
	// Between two layers there is also no ingest for a moment.
	if t.open == 0 && (p.Bytes >= p.Total || t.idle > 1) {
		p.State, p.Rate = event.PullUnpacks, 0
	}
	return p
}

// stallError returns the error for a pull that was canceled because it stalled.
func (t *transfer) stallError(stalled time.Duration) error {
	here, total := t.bytes()
	if total == 0 {
		return fmt.Errorf("no data received for %s", stalled.Round(time.Second))
	}
	return fmt.Errorf("no data received for %s, at %.1f of %.1f MB", stalled.Round(time.Second), float64(here)/1e6, float64(total)/1e6)
}
