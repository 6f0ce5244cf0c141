package imagegc

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

const gib = int64(1 << 30)

var t0 = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func ids(list []Image) string {
	var out []string
	for _, i := range list {
		out = append(out, i.ID)
	}
	return strings.Join(out, " ")
}

// at returns t0 plus a number of minutes.
func at(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }

func TestUnusedAndExpired(t *testing.T) {
	images := []Image{{ID: "used", InUse: true}, {ID: "new"}, {ID: "recent"}, {ID: "old"}, {ID: "never"}, {ID: "unknown"}}
	r := Records{Images: map[string]Record{
		"used": {at(-600), at(0)}, "new": {at(-1), time.Time{}}, "recent": {at(-600), at(-10)}, "old": {at(-500), at(-300)}, "never": {at(-200), time.Time{}},
	}}
	p := Policy{High: 85, Low: 80, MinAge: 2 * time.Minute, MaxAge: 4 * time.Hour}
	if got, want := ids(Unused(images, r, p, at(0))), "never old recent"; got != want {
		t.Errorf("unused: %q, want %q", got, want)
	}
	// For an image that was never used, the age is the time since its first detection.
	if got, want := ids(Expired(images, r, p, at(0))), "old"; got != want {
		t.Errorf("expired: %q, want %q", got, want)
	}
	if p.MaxAge = 0; len(Expired(images, r, p, at(0))) > 0 {
		t.Error("without a maximum age none expires")
	}
}

func TestObserveRecords(t *testing.T) {
	const gap = 10 * time.Minute
	r := Observe(Records{}, []Image{{ID: "a", InUse: true}, {ID: "b"}}, gap, at(0))
	r = Observe(r, []Image{{ID: "a"}, {ID: "b"}}, gap, at(5))
	want := map[string]Record{"a": {at(0), at(0)}, "b": {Detected: at(0)}}
	if fmt.Sprint(r.Images) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", r.Images, want)
	}
	// The records must not change when podrun stores and loads them.
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var read Records
	if err := json.Unmarshal(data, &read); err != nil || !read.Images["a"].Used.Equal(at(0)) || !read.Seen.Equal(at(5)) {
		t.Fatalf("%s: %+v, %v", data, read, err)
	}
	// Time without observations does not count: here, 60 minutes.
	r = Observe(read, []Image{{ID: "a"}, {ID: "b"}}, gap, at(65))
	if !r.Images["a"].Used.Equal(at(60)) || !r.Images["b"].Detected.Equal(at(60)) || !r.Images["b"].Used.IsZero() {
		t.Errorf("after a gap: %v", r.Images)
	}
	// Observe drops images that were removed. If the clock was set back, it must not consider an
	// image new for years.
	r = Observe(r, []Image{{ID: "b"}}, gap, at(-600))
	if len(r.Images) != 1 || !r.Images["b"].Detected.Equal(at(-600)) {
		t.Errorf("%v", r.Images)
	}
}

func TestSurplus(t *testing.T) {
	p := PolicyOf(nodeconfig.Default())
	for free, want := range map[int64]int64{50: 0, 16: 0, 15: 5 * gib, 0: 20 * gib, 120: 0} {
		if got := Surplus(p, host.Filesystem{CapacityBytes: 100 * gib, AvailableBytes: free * gib}); got != want {
			t.Errorf("%d GiB free: %d, want %d", free, got, want)
		}
	}
	if got := Surplus(p, host.Filesystem{}); got != 0 {
		t.Errorf("an unknown disk: %d", got)
	}
	if p.Off() || !(Policy{High: 100}).Off() || (Policy{High: 100, MaxAge: 1}).Off() {
		t.Error("Off")
	}
	const want = "Insufficient free disk space on the node's image filesystem (90% of 100.0 GiB used). Failed to free sufficient space by deleting unused images (freed 512 bytes). " +
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
	if got := Insufficient(host.Filesystem{CapacityBytes: 100 * gib, AvailableBytes: 10 * gib}, 512); got != want {
		t.Errorf("%q", got)
	}
}

// TestADay simulates 24 hours: in each minute, an image may be pulled, and a pod started, stopped or deleted,
// and every 5 minutes, the images are observed. The disk must never be full, and no image in use
// may be removed.
func TestADay(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		const capacity = 100 * gib
		p := PolicyOf(nodeconfig.Default())
		sizes, running, next := map[string]int64{}, []string{}, 0
		var r Records
		used := func() (sum int64) {
			for _, n := range sizes {
				sum += n
			}
			return sum
		}
		collect := func(now time.Time) {
			var list []Image
			for id, n := range sizes {
				list = append(list, Image{ID: id, Size: n, InUse: slices.Contains(running, id)})
			}
			r = Observe(r, list, 10*time.Minute, now)
			left := Surplus(p, host.Filesystem{CapacityBytes: capacity, AvailableBytes: capacity - used()})
			for _, i := range Unused(list, r, p, now) {
				if left <= 0 {
					break
				}
				if slices.Contains(running, i.ID) {
					t.Fatalf("seed %d: %s is in use and was removed", seed, i.ID)
				}
				left -= i.Size
				delete(sizes, i.ID)
			}
		}
		removed := 0
		for minute := range 24 * 60 {
			before := len(sizes)
			if minute%5 == 0 {
				collect(at(minute))
			}
			removed += before - len(sizes)
			if rnd.IntN(4) == 0 { // a new version of a pod, with an image of up to 4 GiB
				next++
				id := fmt.Sprintf("image%d", next)
				sizes[id] = 1 + rnd.Int64N(4*gib)
				running = append(running, id)
			}
			if len(running) > 8 || len(running) > 0 && rnd.IntN(5) == 0 {
				at := rnd.IntN(len(running))
				running = slices.Delete(running, at, at+1)
			}
			if used() >= capacity {
				t.Fatalf("seed %d: full after %d minutes", seed, minute)
			}
		}
		if removed < 100 {
			t.Errorf("seed %d: only %d images were removed", seed, removed)
		}
	}
}
