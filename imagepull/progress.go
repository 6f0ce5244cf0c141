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

// rateWindow is the time over which a pull's rate is averaged: long enough to smooth
// containerd's steps of 1 MiB.
const rateWindow = 5 * time.Second

// ingest is a blob on its way into containerd, by the ref that the fetcher gives
// it: layer-sha256:…, config-sha256:…, manifest-sha256:…, index-sha256:….
type ingest struct {
	ref    string
	offset int64 // bytes present
}

// digest is the blob's.
func (i ingest) digest() string {
	_, digest, _ := strings.Cut(i.ref, "-")
	return digest
}

// ofImage reports whether the ingest is a manifest or an index, whose image is unknown
// until it is complete.
func (i ingest) ofImage() bool {
	return strings.HasPrefix(i.ref, "manifest-") || strings.HasPrefix(i.ref, "index-")
}

// manifest is an image's manifest in containerd's store.
type manifest struct {
	digest  string
	updated time.Time
	blobs   []string // digests of its layers and its config
}

// source is containerd's label for content from a repository; its host has no port.
type source struct{ host, repository string }

// sourceOf is the source of a reference; empty if it cannot be parsed.
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

// registryOf is the registry of a reference, with its port; the reference itself if it
// cannot be parsed.
func registryOf(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	return reference.Domain(named)
}

// look is one observation of the store.
type look struct {
	at      time.Time
	ingests map[string]ingest // by ref
	known   bool              // false where the runtime does not show its store
}

// open are the digests of the blobs that are on their way.
func (l look) open() map[string]bool {
	out := map[string]bool{}
	for _, i := range l.ingests {
		out[i.digest()] = true
	}
	return out
}

// transfer is one call of PullImage, as far as it can be seen from outside.
// Containerd does not report which call an ingest belongs to: a pull's are the
// blobs of the manifests of its repository that came since it began or, where
// an earlier pull got no further, that have blobs on their way.
type transfer struct {
	from     source
	registry string // with its port
	begun    time.Time
	// shared is true if another pull of the repository was in progress too: then it is
	// unknown which manifest belongs to which pull.
	shared bool

	candidates map[string]manifest // by digest
	manifest   string              // the candidate that is shown as this pull's
	sure       bool                // it came since this pull began
	going      bool                // its blobs were seen to move
	sizes      map[string]int64    // of its blobs, by digest; nil until it is read
	here       map[string]int64    // bytes of its blobs

	known   bool // whether the store was ever seen
	open    int  // its ingests at the last look
	idle    int  // looks in a row without one
	moved   time.Time
	offsets map[string]int64 // of all its candidates' ingests, by ref
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

// wantsManifests reports whether the store is to be searched for its manifest.
func (t *transfer) wantsManifests() bool { return !t.sure || t.shared }

// offer matches a transfer with the manifests of its repository. The transfer's manifest
// is the first one that arrived since it began and that no other transfer has. Until
// there is one, it is a manifest that was already present, with blobs in progress: they
// belong to this pull if they grow, or are left by an interrupted pull.
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
	// Leftovers of an interrupted pull never grow: they are ignored once it is known what
	// this pull fetches.
	if t.sure || t.going {
		maps.DeleteFunc(t.candidates, func(digest string, m manifest) bool { return digest != t.manifest && m.updated.Before(t.begun) })
	}
}

// motion reports whether a manifest has blobs on their way, and whether one of
// them moved since the last look.
func (t *transfer) motion(m manifest, l look) (open, moves bool) {
	for ref, i := range l.ingests {
		if slices.Contains(m.blobs, i.digest()) {
			before, known := t.offsets[ref]
			open, moves = true, moves || known && before != i.offset
		}
	}
	return open, moves
}

// claim makes a manifest the one that is shown.
func (t *transfer) claim(m manifest, taken map[string]bool) {
	delete(taken, t.manifest)
	taken[m.digest] = true
	t.manifest, t.going, t.sizes, t.here, t.samples = m.digest, false, nil, map[string]int64{}, nil
}

// missing lists the blobs that are neither here nor on their way, as far as is
// known.
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

// see takes a look in; present are digests of blobs that are whole.
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

// stalled returns for how long no open ingest has grown; 0 if there is no open ingest.
func (t *transfer) stalled(now time.Time) time.Duration {
	if len(t.offsets) == 0 {
		return 0
	}
	return now.Sub(t.moved)
}

// unanswered returns for how long the registry has not answered, that is, no content of
// the image is present or in progress; 0 if there is some, or the store cannot be read.
func (t *transfer) unanswered(now time.Time) time.Duration {
	if !t.known || len(t.candidates)+len(t.offsets) > 0 {
		return 0
	}
	return now.Sub(t.moved)
}

// bytes returns the present and the total bytes of the image; 0 if they are unknown.
func (t *transfer) bytes() (here, total int64) {
	for digest, size := range t.sizes {
		total += size
		here += t.here[digest]
	}
	return here, total
}

// rate is bytes a second, lately.
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

// progress is the progress of the pull.
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
	// Between two layers nothing is open for a moment, either.
	if t.open == 0 && (p.Bytes >= p.Total || t.idle > 1) {
		p.State, p.Rate = event.PullUnpacks, 0
	}
	return p
}

// stallError describes what a canceled pull had waited for.
func (t *transfer) stallError(stalled time.Duration) error {
	here, total := t.bytes()
	if total == 0 {
		return fmt.Errorf("no data received for %s", stalled.Round(time.Second))
	}
	return fmt.Errorf("no data received for %s, at %.1f of %.1f MB", stalled.Round(time.Second), float64(here)/1e6, float64(total)/1e6)
}
