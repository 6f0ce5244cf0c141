package eviction

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

const (
	mi = int64(1 << 20)
	gi = int64(1 << 30)
)

var t0 = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// settings returns one hard and one soft threshold for memory, and thresholds for disks.
func settings() nodeconfig.Settings {
	s := nodeconfig.Default()
	s.EvictionSoft = map[string]string{"memory.available": "500Mi"}
	s.EvictionSoftGracePeriod = map[string]string{"memory.available": "1m"}
	s.EvictionMinimumReclaim = map[string]string{"memory.available": "50Mi", "nodefs.available": "1Gi"}
	return s
}

func mustThresholds(t *testing.T, s nodeconfig.Settings) []Threshold {
	t.Helper()
	all, bad := Thresholds(s)
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	return all
}

func TestThresholdsAreOrdered(t *testing.T) {
	s := settings()
	// podrun does not support this signal.
	s.EvictionHard["containerfs.available"] = "10%"
	s.EvictionHard["pid.available"] = "0%" // a threshold of 0% is disabled
	var got []string
	for _, th := range mustThresholds(t, s) {
		got = append(got, fmt.Sprintf("%s %s", th.Signal, th.Grace))
	}
	want := []string{"memory.available 0s", "memory.available 1m0s", "nodefs.available 0s", "nodefs.inodesFree 0s", "imagefs.available 0s", "imagefs.inodesFree 0s"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestInvalidThresholdsAreProblems(t *testing.T) {
	s := nodeconfig.Settings{EvictionHard: map[string]string{"memory.available": "much", "nodefs.available": "10%"},
		EvictionSoft: map[string]string{"pid.available": "10"}}
	all, bad := Thresholds(s)
	if len(all) != 1 || len(bad) != 2 || !bad[0].Warning || bad[0].Field != "evictionHard.memory.available" {
		t.Errorf("%+v, %v", all, bad)
	}
}

// step is an observation and the expected decision.
type step struct {
	after      time.Duration // time since the first observation
	memory     int64         // available memory, of 8 Gi
	disk       int64         // available space of nodefs, which has 100 Gi
	conditions string
	met        string // the expected signals, with h for hard and s for soft thresholds
}

func TestNext(t *testing.T) {
	const low, fine = 50 * mi, 4 * gi
	for name, steps := range map[string][]step{
		"nothing": {{0, fine, 50 * gi, "", ""}},
		"a hard threshold counts at once, and the condition holds for the transition period": {
			{0, low, 50 * gi, "MemoryPressure", "memory.available/h"},
			{10 * time.Second, fine, 50 * gi, "MemoryPressure", ""},
			{4*time.Minute + 59*time.Second, fine, 50 * gi, "MemoryPressure", ""},
			{5 * time.Minute, fine, 50 * gi, "", ""}},
		"pressure that comes again begins the transition period again": {
			{0, low, 50 * gi, "MemoryPressure", "memory.available/h"},
			{4 * time.Minute, low, 50 * gi, "MemoryPressure", "memory.available/h memory.available/s"},
			{8 * time.Minute, fine, 50 * gi, "MemoryPressure", ""},
			{9 * time.Minute, fine, 50 * gi, "", ""}},
		"a soft threshold makes the condition at once and counts after its grace period": {
			{0, 400 * mi, 50 * gi, "MemoryPressure", ""},
			{59 * time.Second, 400 * mi, 50 * gi, "MemoryPressure", ""},
			{60 * time.Second, 400 * mi, 50 * gi, "MemoryPressure", "memory.available/s"}},
		"the grace period of a soft threshold begins again when it was not crossed": {
			{0, 400 * mi, 50 * gi, "MemoryPressure", ""},
			{50 * time.Second, 600 * mi, 50 * gi, "MemoryPressure", ""},
			{60 * time.Second, 400 * mi, 50 * gi, "MemoryPressure", ""},
			{2 * time.Minute, 400 * mi, 50 * gi, "MemoryPressure", "memory.available/s"}},
		"what was met stays so until the minimum reclaim is available": {
			{0, fine, 9 * gi, "DiskPressure", "nodefs.available/h"},
			{10 * time.Second, fine, 10*gi + gi/2, "DiskPressure", "nodefs.available/h"},
			{20 * time.Second, fine, 12 * gi, "DiskPressure", ""},
			{30 * time.Second, fine, 10*gi + gi/2, "DiskPressure", ""}},
		"memory before disk, hard before soft": {
			{0, 400 * mi, 9 * gi, "DiskPressure MemoryPressure", "nodefs.available/h"},
			{time.Minute, low, 9 * gi, "DiskPressure MemoryPressure", "memory.available/h memory.available/s nodefs.available/h"}},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			for _, st := range steps {
				o := Observations{MemoryAvailable: {st.memory, 8 * gi}, NodeFSAvailable: {st.disk, 100 * gi}}
				var d Decision
				s, d = Next(s, mustThresholds(t, settings()), o, 5*time.Minute, t0.Add(st.after))
				var met, conditions []string
				for _, th := range d.Met {
					kind := "/h"
					if !th.Hard() {
						kind = "/s"
					}
					met = append(met, string(th.Signal)+kind)
				}
				for _, c := range d.Conditions {
					conditions = append(conditions, string(c))
				}
				if got := strings.Join(met, " "); got != st.met {
					t.Errorf("after %s: met %q, want %q", st.after, got, st.met)
				}
				if got := strings.Join(conditions, " "); got != st.conditions {
					t.Errorf("after %s: conditions %q, want %q", st.after, got, st.conditions)
				}
			}
		})
	}
}

// TestNextForgetsThresholds checks that a threshold is no longer met after a reload has removed it.
func TestNextForgetsThresholds(t *testing.T) {
	o := Observations{NodeFSAvailable: {gi, 100 * gi}}
	s, d := Next(State{}, mustThresholds(t, settings()), o, time.Minute, t0)
	if len(d.Met) != 1 {
		t.Fatalf("%+v", d)
	}
	if _, d = Next(s, nil, o, time.Minute, t0.Add(time.Second)); len(d.Met) > 0 || len(d.Conditions) != 1 {
		t.Errorf("%+v", d)
	}
}

func TestObserve(t *testing.T) {
	f := host.Facts{Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")}, MemoryAvailable: gi,
		NodeFS:  host.Filesystem{CapacityBytes: 100, AvailableBytes: 50, Inodes: 10, InodesFree: 5, Device: 1},
		ImageFS: host.Filesystem{CapacityBytes: 200, AvailableBytes: 20, Device: 2}, // btrfs has no inodes
		PIDs:    host.PIDs{Max: 1000, Used: 900}}
	o := Observe(f)
	want := Observations{MemoryAvailable: {gi, 8 * gi}, NodeFSAvailable: {50, 100}, NodeFSInodesFree: {5, 10}, ImageFSAvailable: {20, 200}, PIDAvailable: {100, 1000}}
	if fmt.Sprint(o) != fmt.Sprint(want) {
		t.Errorf("%v\nwant %v", o, want)
	}
	if !DedicatedImages(f) {
		t.Error("the separate disk of images is not detected")
	}
	f.ImageFS = host.Filesystem{}
	if DedicatedImages(f) {
		t.Error("the disk of images is unknown")
	}
	if o := Observe(host.Facts{}); len(o) > 0 {
		t.Errorf("observed from nothing: %v", o)
	}
}

func TestReclaimFor(t *testing.T) {
	for _, tc := range []struct {
		signal    Signal
		dedicated bool
		want      bool
	}{
		{MemoryAvailable, false, false}, {PIDAvailable, true, false},
		{NodeFSAvailable, false, true}, {NodeFSInodesFree, true, false}, {ImageFSAvailable, true, true}, {ImageFSInodesFree, false, true},
	} {
		if got := ReclaimFor(tc.signal, tc.dedicated); got != (Reclaim{tc.want, tc.want}) {
			t.Errorf("%s, dedicated %t: %+v", tc.signal, tc.dedicated, got)
		}
	}
}

func TestGrace(t *testing.T) {
	own := int64(45)
	for _, tc := range []struct {
		soft bool
		own  *int64
		most int32
		want time.Duration
	}{
		{false, &own, 60, time.Second}, {true, &own, 60, 45 * time.Second}, {true, &own, 30, 30 * time.Second},
		{true, &own, 0, time.Second}, {true, nil, 20, 20 * time.Second},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: tc.own}}
		th := Threshold{}
		if tc.soft {
			th.Grace = time.Minute
		}
		if got := Grace(pod, th, tc.most); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}
