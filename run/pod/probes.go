package pod

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// Probed returns the current results of the probes. If no probes run, it returns the results that
// an earlier podrun process stored.
func (p *Pod) Probed() (started, ready map[string]bool, unhealthy map[string]lifecycle.Unhealthy) {
	started, ready = p.Observed.Probed()
	if p.Prober == nil {
		return started, ready, nil
	}
	results := p.Prober.Results()
	maps.Copy(started, results.Started)
	maps.Copy(ready, results.Ready)
	unhealthy = map[string]lifecycle.Unhealthy{}
	for id, kill := range results.Kill {
		unhealthy[id] = lifecycle.Unhealthy{Message: kill.Message, Grace: kill.GraceSeconds}
	}
	return started, ready, unhealthy
}

// KeepProbed stores probe results, by container ID, if they have changed. At the end of an
// operation it also stores the time of the results, which `get` shows. The caller holds the
// pod's lock.
func (p *Pod) KeepProbed(now map[string]lifecycle.Probed, end bool) error {
	same := maps.Equal(now, p.Observed.Probes)
	if len(now) == 0 || same && !end {
		return nil
	}
	p.Observed.Probes = now
	p.Observed.ProbedAt = time.Now()
	err := store.UpdatePodState(p.Plan.Layout, p.Plan.ID.UID, func(s *store.PodState) {
		s.Probes = p.Observed.Probes
		s.ProbedAt = p.Observed.ProbedAt
	})
	if same || errors.Is(err, store.ErrNoPodDir) {
		// The pod was deleted, or only the time of the results was not stored, so that `get` shows an
		// earlier time, which does no harm.
		return nil
	}
	if err != nil {
		return fmt.Errorf("pod %s: save the probe results: %w", p.Plan.ID, err)
	}
	return nil
}
