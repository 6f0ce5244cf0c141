package imagepull

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/internal/event"
)

// begun is the time at which the pulls of these tests begin.
var begun = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// lookAt returns a look at the given time after begun. The keys of the argument offsets are the refs of
// its ingests.
func lookAt(after time.Duration, offsets map[string]int64) look {
	l := look{at: begun.Add(after), known: true, ingests: map[string]ingest{}}
	for ref, offset := range offsets {
		l.ingests[ref] = ingest{ref: ref, offset: offset}
	}
	return l
}

func TestSourceOf(t *testing.T) {
	for ref, want := range map[string]source{
		"busybox":                   {"docker.io", "library/busybox"},
		"127.0.0.1:5000/team/app:1": {"127.0.0.1", "team/app"},
		"registry.example/app@sha256:" + strings.Repeat("a", 64): {"registry.example", "app"},
		"Not A/Name": {},
	} {
		if got := sourceOf(ref); got != want {
			t.Errorf("%s: %v, want %v", ref, got, want)
		}
	}
}

// TestProgressOfAPull checks the progress that podrun reports for a pull, from the beginning to the
// end.
func TestProgressOfAPull(t *testing.T) {
	p := newTransfer("r/app:1", begun)
	state := func(l look, present ...string) event.Pull {
		t.Helper()
		p.see(l, present)
		got := p.progress("app", l.at)
		got.Image, got.Elapsed = "", 0
		return got
	}
	want := func(got, want event.Pull) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	want(state(lookAt(0, nil)), event.Pull{State: event.PullWaits})
	m := manifest{digest: "m", updated: begun.Add(time.Second), blobs: []string{"config", "one", "two"}}
	first := lookAt(time.Second, map[string]int64{"layer-one": 10, "layer-of-another": 7})
	p.offer([]manifest{m}, first, map[string]bool{})
	p.sizes = map[string]int64{"config": 1, "one": 100, "two": 200}
	if diff := cmp.Diff([]string{"config", "two"}, p.missing(first)); diff != "" {
		t.Error(diff)
	}
	want(state(first, "config"), event.Pull{State: event.Pulling, Bytes: 11, Total: 301})
	want(state(lookAt(3*time.Second, map[string]int64{"layer-one": 60, "layer-two": 50})), event.Pull{State: event.Pulling, Bytes: 111, Total: 301, Rate: 50})
	// There is no ingest for a moment between two layers.
	want(state(lookAt(4*time.Second, nil), "one"), event.Pull{State: event.Pulling, Bytes: 151, Total: 301, Rate: 46})
	want(state(lookAt(5*time.Second, map[string]int64{"layer-two": 50})), event.Pull{State: event.Pulling, Bytes: 151, Total: 301, Rate: 35})
	want(state(lookAt(6*time.Second, nil), "two"), event.Pull{State: event.PullUnpacks, Bytes: 301, Total: 301})
	// If the snapshots of layers are present, containerd does not fetch the layers, and there are
	// no further ingests.
	p = newTransfer("r/app:1", begun)
	p.offer([]manifest{m}, first, map[string]bool{})
	p.sizes = map[string]int64{"config": 1, "one": 100}
	state(lookAt(time.Second, nil), "config")
	want(state(lookAt(2*time.Second, nil)), event.Pull{State: event.PullUnpacks, Bytes: 1, Total: 101})
}

// TestProgressWithoutStore checks that podrun reports only the elapsed time if the runtime does not
// provide access to its store.
func TestProgressWithoutStore(t *testing.T) {
	p := newTransfer("r/app:1", begun)
	p.see(look{at: begun.Add(3 * time.Second)}, nil)
	got := p.progress("app", begun.Add(3*time.Second))
	if diff := cmp.Diff(event.Pull{Image: "app", State: event.Pulling, Elapsed: 3 * time.Second}, got); diff != "" || got.String() != "pulling, 3s" {
		t.Error(diff, got.String())
	}
}

// TestManifestsOfConcurrentPulls checks that two pulls of one repository never report the same
// manifest. If an earlier pull left a manifest behind, podrun must report it only while its blobs
// grow.
func TestManifestsOfConcurrentPulls(t *testing.T) {
	old := manifest{digest: "old", updated: begun.Add(-time.Hour), blobs: []string{"a"}}
	one := manifest{digest: "one", updated: begun.Add(time.Second), blobs: []string{"b"}}
	two := manifest{digest: "two", updated: begun.Add(2 * time.Second), blobs: []string{"c"}}
	for name, test := range map[string]struct {
		found []manifest
		open  map[string]int64
		want  [2]string
	}{
		"new ones":            {[]manifest{two, old, one}, nil, [2]string{"one", "two"}},
		"one for two":         {[]manifest{one}, nil, [2]string{"one", ""}},
		"none":                {[]manifest{old}, nil, [2]string{"", ""}},
		"an earlier pull's":   {[]manifest{old}, map[string]int64{"layer-a": 1}, [2]string{"old", ""}},
		"others are underway": {[]manifest{old}, map[string]int64{"layer-x": 1}, [2]string{"", ""}},
	} {
		p, q, taken := newTransfer("r/app:1", begun), newTransfer("r/app:2", begun), map[string]bool{}
		l := lookAt(3*time.Second, test.open)
		p.offer(test.found, l, taken)
		q.offer(test.found, l, taken)
		if got := [2]string{p.manifest, q.manifest}; got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestLeftoversOfAnotherTag checks that podrun ignores the manifest and blobs that an interrupted pull of another
// tag left behind. When the manifest of the pull itself is present, podrun must use only that manifest. Before that,
// if there are two such leftovers, podrun must show the one that grows.
func TestLeftoversOfAnotherTag(t *testing.T) {
	left := manifest{digest: "left", updated: begun.Add(-time.Hour), blobs: []string{"a"}}
	other := manifest{digest: "other", updated: begun.Add(-time.Minute), blobs: []string{"b"}}
	mine := manifest{digest: "mine", updated: begun.Add(time.Second), blobs: []string{"c"}}
	for name, test := range map[string]struct {
		// the manifests at each look; looks are ten seconds apart
		found [][]manifest
		looks []map[string]int64 // offsets of the ingests at each look
		want  string
		stall time.Duration
	}{
		"its own is here at once": {[][]manifest{{left, mine}, {left, mine}}, []map[string]int64{{"layer-a": 5, "layer-c": 1}, {"layer-a": 5, "layer-c": 2}}, "mine", 0},
		"its own is unpacked":     {[][]manifest{{left, mine}, {left, mine}, {left, mine}}, []map[string]int64{{"layer-a": 5, "layer-c": 1}, {"layer-a": 5}, {"layer-a": 5}}, "mine", 0},
		"it went on, and unpacks": {[][]manifest{{left, other}, {left, other}, {left}, {left}}, []map[string]int64{{"layer-a": 5, "layer-b": 5}, {"layer-a": 5, "layer-b": 6}, {"layer-a": 5}, {"layer-a": 5}}, "other", 0},
		"its own comes later":     {[][]manifest{{left}, {left, mine}}, []map[string]int64{{"layer-a": 5}, {"layer-a": 5, "layer-c": 2}}, "mine", 0},
		"it goes on with one":     {[][]manifest{{left, other}, {left, other}, {left, other}}, []map[string]int64{{"layer-a": 5, "layer-b": 5}, {"layer-a": 5, "layer-b": 6}, {"layer-a": 5, "layer-b": 7}}, "other", 0},
		"it goes on with none":    {[][]manifest{{left}, {left}}, []map[string]int64{{"layer-a": 5}, {"layer-a": 5}}, "left", 10 * time.Second},
	} {
		p, taken := newTransfer("r/app:1", begun), map[string]bool{}
		var at time.Duration
		for i, offsets := range test.looks {
			at = time.Duration(i) * 10 * time.Second
			l := lookAt(at, offsets)
			p.offer(test.found[i], l, taken)
			p.see(l, nil)
		}
		if stalled := p.stalled(begun.Add(at)); p.manifest != test.want || stalled != test.stall || !taken[test.want] || len(taken) != 1 {
			t.Errorf("%s: %s, stalled for %s, %v", name, p.manifest, stalled, taken)
		}
	}
}

// TestStalled checks that podrun distinguishes a stalled pull from a slow pull, and from a pull
// that fetches nothing.
func TestStalled(t *testing.T) {
	m := manifest{digest: "m", updated: begun, blobs: []string{"one", "two"}}
	other := manifest{digest: "other", updated: begun, blobs: []string{"three"}}
	for name, test := range map[string]struct {
		found []manifest
		looks []map[string]int64 // offsets at each look; looks are ten seconds apart
		want  time.Duration
	}{
		"no byte":                      {[]manifest{m}, []map[string]int64{{"layer-one": 5}, {"layer-one": 5}, {"layer-one": 5}}, 20 * time.Second},
		"one of two moves":             {[]manifest{m}, []map[string]int64{{"layer-one": 5, "layer-two": 5}, {"layer-one": 5, "layer-two": 6}, {"layer-one": 5, "layer-two": 7}}, 0},
		"one came, the other stands":   {[]manifest{m}, []map[string]int64{{"layer-one": 5, "layer-two": 5}, {"layer-one": 5}, {"layer-one": 5}}, 10 * time.Second},
		"nothing is open":              {[]manifest{m}, []map[string]int64{{"layer-one": 5}, {}, {}}, 0},
		"another's":                    {[]manifest{m}, []map[string]int64{{"layer-x": 5}, {"layer-x": 5}, {"layer-x": 5}}, 0},
		"the manifest itself":          {nil, []map[string]int64{{"manifest-m": 0}, {"manifest-m": 0}, {"manifest-m": 0}}, 20 * time.Second},
		"of the same repository, goes": {[]manifest{m, other}, []map[string]int64{{"layer-one": 5, "layer-three": 1}, {"layer-one": 5, "layer-three": 2}, {"layer-one": 5, "layer-three": 3}}, 0},
	} {
		p := newTransfer("r/app:1", begun)
		var at time.Duration
		for i, offsets := range test.looks {
			at = time.Duration(i) * 10 * time.Second
			l := lookAt(at, offsets)
			p.offer(test.found, l, map[string]bool{})
			p.see(l, nil)
		}
		if got := p.stalled(begun.Add(at)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestWatchWithoutContainerd checks that podrun reports only the elapsed time if the runtime does
// not provide access to its store, and only until the pull has ended.
func TestWatchWithoutContainerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.slow["app:1"] = 900 * time.Millisecond
		var mu sync.Mutex
		var told []string
		progress := func(e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%s %s %s %s", e.Reason, e.FieldPath, e.Pull.State, e.Pull.Elapsed))
		}
		pulls := r.puller(Options{Progress: progress, StallTimeout: time.Millisecond}).Start(t.Context(), planOf(t, "containers:\n"+container("app", "app:1", "Always")))
		if _, err := pulls.Wait(t.Context(), "app"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		wantLines(t, "progress", told, []string{
			"PullProgress spec.containers{app} pulling 250ms", "PullProgress spec.containers{app} pulling 500ms",
			"PullProgress spec.containers{app} pulling 750ms", "PullProgress spec.containers{app} ended 0s",
		})
	})
}
