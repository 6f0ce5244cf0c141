package pod

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// reportOOMs emits one event for each container that was OOM-killed, and returns the IDs of all
// containers for which it has emitted an event, now or earlier.
func (p *Pod) reportOOMs() (reported []string) {
	for _, c := range p.Observed.OOMKilled() {
		if !slices.Contains(p.Observed.Kept.OOMKilled, c.ID) {
			p.Emit(event.Warning, event.OOMKilling, c.Name,
				fmt.Sprintf("Memory cgroup out of memory: container %s (exit code %d)", c.Name, c.ExitCode))
		}
		reported = append(reported, c.ID)
	}
	return reported
}

// KeepStatus records the part of the pod's status that other processes cannot derive, if this part has changed: the
// transition times of the conditions, and how the pod ended. The pod's lock must be held, and this command must own
// the pod.
func (p *Pod) KeepStatus(ending map[string]time.Time) error {
	before := p.Observed.Kept
	p.UpdateResizePending()
	if err := p.EndResize(); err != nil {
		return err
	}
	if err := p.EndRestarts(ending); err != nil {
		return err
	}
	ended := lifecycle.Next(p.Spec(), p.World()).Ended
	now := lifecycle.Keep(p.Status(), ended)
	now.OOMKilled = p.reportOOMs()
	now.Evicted = p.Observed.Kept.Evicted
	now.ResizePending = p.Observed.Kept.ResizePending
	now.ShutDown = p.Observed.Kept.ShutDown
	now.CreateFailures = p.Observed.Kept.CreateFailures
	now.StartFailures = p.Observed.CurrentStartFailures()
	if now.PodIPs = before.PodIPs; !p.Spec().Spec.HostNetwork {
		if sb := p.Observed.Sandbox(); sb != nil && len(sb.IPs) > 0 {
			now.PodIPs = lifecycle.OrderIPs(sb.IPs, p.Plan.NodeIPs)
		}
	}
	if now.Equal(before) {
		return nil
	}
	return p.Keep(now)
}

// KeepStartFailure records why a container could not be started; transient is StartFailure.Transient. The pod's lock must
// be held.
func (p *Pod) KeepStartFailure(name string, why lifecycle.Waiting, transient bool) error {
	return p.Keep(p.Observed.WithStartFailure(name, lifecycle.Failure{Waiting: why, At: time.Now()}, transient))
}

// Keep writes the kept part of the pod's status. The caller holds the pod's lock.
func (p *Pod) Keep(now lifecycle.Kept) error {
	err := store.UpdatePodState(p.Plan.Layout, p.Plan.ID.UID, func(s *store.PodState) { s.Kept = now })
	if errors.Is(err, store.ErrNoPodDir) {
		return nil // the pod is new, or was deleted
	}
	if err != nil {
		return fmt.Errorf("pod %s: save its status: %w", p.Plan.ID, err)
	}
	p.Observed.Kept = now
	return nil
}
