package supervisor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	evictions "github.com/podrun/podrun/serve/eviction"
)

const (
	// leastTurn is the minimum time for the volumes of one pod in a round.
	leastTurn = 100 * time.Millisecond
	// mostFailures is the number of consecutive measurements of a volume that containers may prevent before
	// the pod counts as exceeding its limits. A program that moves its directories by chance prevents only
	// some of them.
	mostFailures = 3
	// forgetAfter is the time after which volumeSizes forgets a pod that it no longer measures.
	forgetAfter = 5 * time.Minute
)

// volumeSizes contains the sizes of emptyDirs, which one goroutine measures in rounds. In a round, each pod
// gets the same time for all its volumes. If it is over, the measurement continues in the next round, and
// the last complete measurement counts until then: containers can make a measurement as long as they want.
type volumeSizes struct {
	begin func(uid, volume string) measurement
	warn  func(error)

	mu   sync.Mutex // guards pods and the results of measurements
	pods map[string]*podVolumes
}

// measurement is an evictions.Measurement.
type measurement interface {
	Continue(context.Context) error
	Used() evictions.Disk
	Close()
}

// podVolumes contains the measurements of one pod.
type podVolumes struct {
	turn    time.Time // when the last turn began
	next    int       // the volume that the next turn measures first
	volumes map[string]*volumeSize
}

// volumeSize is the state of the measurement of one emptyDir.
type volumeSize struct {
	running   measurement    // nil between two measurements; only the measuring goroutine uses it
	failures  int            // consecutive measurements that containers have prevented
	measured  bool           // whether complete is known
	complete  evictions.Disk // the last complete measurement
	part      evictions.Disk // what the measurement after it has found so far
	prevented bool
}

// measure executes a round. If ctx ends, the round ends early. Only one goroutine may call it.
func (s *volumeSizes) measure(ctx context.Context, pods []*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	turns := s.turns(pods)
	share := max(measureEvery/time.Duration(len(pods)), leastTurn)
	for _, t := range turns {
		turn, cancel := context.WithTimeout(ctx, share)
		t.state.turn = time.Now()
		s.turn(turn, t)
		cancel()
		if ctx.Err() != nil {
			return
		}
	}
}

// turn is the share of one pod of a round.
type turn struct {
	uid     string
	volumes []string
	state   *podVolumes
}

// turns returns the turns of a round: pods that have waited longest come first, so that a round that ends
// early omits no pod repeatedly. It forgets pods that are no longer measured.
func (s *volumeSizes) turns(pods []*corev1.Pod) []turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, out := s.pods, make([]turn, 0, len(pods))
	s.pods = map[string]*podVolumes{}
	for _, p := range pods {
		t := turn{uid: string(p.UID), state: known[string(p.UID)]}
		if t.state == nil {
			t.state = &podVolumes{volumes: map[string]*volumeSize{}}
		}
		for _, v := range p.Spec.Volumes {
			if evictions.OnDisk(v) {
				t.volumes = append(t.volumes, v.Name)
				if t.state.volumes[v.Name] == nil {
					t.state.volumes[v.Name] = &volumeSize{}
				}
			}
		}
		s.pods[t.uid] = t.state
		out = append(out, t)
	}
	for uid, state := range known {
		switch {
		case s.pods[uid] != nil:
		case time.Since(state.turn) < forgetAfter:
			s.pods[uid] = state
		default:
			state.close()
		}
	}
	slices.SortStableFunc(out, func(a, b turn) int { return a.state.turn.Compare(b.state.turn) })
	return out
}

// close ends the measurements of a pod.
func (p *podVolumes) close() {
	for _, v := range p.volumes {
		if v.running != nil {
			v.running.Close()
		}
	}
}

// turn measures each volume of a pod once, until ctx ends.
func (s *volumeSizes) turn(ctx context.Context, t turn) {
	for range t.volumes {
		name := t.volumes[t.state.next%len(t.volumes)]
		if !s.volume(ctx, t.state.volumes[name], func() measurement { return s.begin(t.uid, name) }) {
			return
		}
		t.state.next++
	}
}

// volume continues the measurement of a volume. It returns false if ctx ended first. If containers prevent
// the measurement, it begins again at once.
func (s *volumeSizes) volume(ctx context.Context, v *volumeSize, begin func() measurement) bool {
	for {
		if v.running == nil {
			v.running = begin()
		}
		err := v.running.Continue(ctx)
		if err != nil && ctx.Err() != nil {
			s.mu.Lock()
			v.part = v.running.Used()
			s.mu.Unlock()
			return false
		}
		s.end(v, err)
		if !errors.Is(err, evictions.ErrPrevented) {
			if err != nil {
				s.warn(err)
			}
			return true
		}
		if v.failures >= mostFailures {
			return true
		}
	}
}

// end records the result of a measurement that cannot be continued.
func (s *volumeSizes) end(v *volumeSize, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.part = v.running.Used()
	switch {
	case err == nil:
		v.measured = true
		v.complete = v.part
		v.part = evictions.Disk{}
		v.failures = 0
	case errors.Is(err, evictions.ErrPrevented):
		v.failures++
	}
	v.prevented = v.failures >= mostFailures
	v.running.Close()
	v.running = nil
}

// add adds the sizes of a pod's volumes to its usage. A measurement in progress counts if it has already
// found more than the last complete one.
func (s *volumeSizes) add(uid string, u *evictions.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil {
		return
	}
	for name, v := range p.volumes {
		used := v.complete
		if v.part.Bytes > used.Bytes {
			used = v.part
		}
		if v.measured || used != (evictions.Disk{}) {
			u.Volumes[name] = used
		}
		u.Unmeasured = u.Unmeasured || !v.measured && v.running != nil
		if v.prevented {
			if u.Prevented == nil {
				u.Prevented = map[string]bool{}
			}
			u.Prevented[name] = true
		}
	}
}
