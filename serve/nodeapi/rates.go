package nodeapi

import (
	"math"
	"sync"
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"
)

// The interval over which Rates computes a rate. A shorter interval would show the scheduler's
// ticks rather than the load. With a longer one, the average would be outdated.
const (
	shortestInterval = 500 * time.Millisecond
	longestInterval  = 30 * time.Second
)

// Rates computes UsageNanoCores from successive summaries. It does not use the rates of the
// runtime. containerd 1.7 computes the rate since the previous request of any client, and reports
// 0 for the first request (pkg/cri/sbserver, getUsageNanoCores). The zero value is ready to use.
// It is safe for concurrent use.
type Rates struct {
	mu   sync.Mutex
	last map[rated]sample
}

// rated identifies the subject of a sample: a container of a pod, the pod itself if the container is empty, or the
// node if both are empty. A restarted container is a different subject.
type rated struct {
	uid, container string
	started        int64 // start time in nanoseconds since 1970
}

// sample is a reading, and the rate up to that reading. The rate is nil if it is unknown.
type sample struct {
	at    time.Time
	usage uint64
	rate  *uint64
}

// Fill sets UsageNanoCores of the node, the pods and their containers to the average usage since an
// earlier summary that is at most 30 s old. If there is no such summary, it sets UsageNanoCores to
// nil. The argument now is the time of readings without a timestamp.
func (r *Rates) Fill(s *statsapi.Summary, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[rated]sample{}
	fill := func(of rated, c *statsapi.CPUStats) {
		if c == nil || c.UsageCoreNanoSeconds == nil {
			return
		}
		at := c.Time.Time
		if at.UnixNano() <= 0 {
			at = now
		}
		before, known := r.last[of]
		next[of] = advance(before, known, at, *c.UsageCoreNanoSeconds)
		c.UsageNanoCores = next[of].rate
	}
	fill(rated{}, s.Node.CPU)
	for i := range s.Pods {
		p := &s.Pods[i]
		fill(rated{uid: p.PodRef.UID}, p.CPU)
		for j := range p.Containers {
			c := &p.Containers[j]
			fill(rated{p.PodRef.UID, c.Name, c.StartTime.UnixNano()}, c.CPU)
		}
	}
	r.last = next
}

// advance returns the sample to keep after a reading. The argument before is the sample that was
// kept until then.
func advance(before sample, known bool, at time.Time, usage uint64) sample {
	interval := at.Sub(before.at)
	switch {
	case !known || interval < 0 || interval > longestInterval || usage < before.usage:
		return sample{at: at, usage: usage}
	case interval < shortestInterval:
		// A runtime with a cache may return the same reading again.
		return before
	}
	return sample{at: at, usage: usage, rate: ptr.To(uint64(math.Round(float64(usage-before.usage) / interval.Seconds())))}
}
