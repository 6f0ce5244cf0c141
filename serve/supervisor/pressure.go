package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
	evictions "github.com/podrun/podrun/serve/eviction"
)

// Stats reads the resource usage on which evictions are based.
type Stats interface {
	// Node reads the available memory, the file systems and the process IDs of the host. It may
	// leave other facts unset.
	Node(ctx context.Context) (host.Facts, error)
	// Pods reads the resource usage of pods, by UID. The result omits pods whose usage cannot be
	// read. It does not wait for Measure: it contains the sizes of volumes that Measure has found.
	Pods(ctx context.Context, pods []*corev1.Pod) map[string]*evictions.Usage
	// Measure measures the volumes of pods, until all pods had their turn or ctx ends. Only one
	// goroutine calls it.
	Measure(ctx context.Context, pods []*corev1.Pod)
}

// The intervals at which podrun checks the node and the local storage limits of pods, as in the
// kubelet (evictionMonitoringPeriod in pkg/kubelet, volumeStatsAggPeriod in its configuration).
const (
	examineEvery = 10 * time.Second
	measureEvery = time.Minute
)

// pressure is the state of the node's resource pressure.
type pressure struct {
	// Only one goroutine uses this field and the following ones.
	state    evictions.State
	enforced time.Time // when podrun last enforced the local storage limits of pods
	limited  limits
	reported string // the resource of the last reported reclaim

	mu         sync.Mutex // guards the conditions
	conditions []corev1.NodeConditionType
}

// any reports whether the node is under pressure.
func (p *pressure) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conditions) > 0
}

// evictor evicts pods and frees disk space while the node is under pressure.
type evictor struct{ s *Supervisor }

// watch examines the node at intervals. In each pass, it evicts at most one pod.
func (e evictor) watch(ctx context.Context) {
	for {
		evicted, err := e.examine(ctx)
		if err != nil && ctx.Err() == nil {
			e.s.current().WarnOnce(problem.WarningOf(err))
		}
		// After an eviction, podrun examines the node again immediately, as the kubelet does.
		if evicted && ctx.Err() == nil {
			continue
		}
		if wait.SleepPeriod(ctx, examineEvery) != nil {
			return
		}
	}
}

// examine executes one pass, and reports whether it evicted a pod.
func (e evictor) examine(ctx context.Context) (evicted bool, err error) {
	settings := e.s.current().Settings
	thresholds, bad := evictions.Thresholds(settings)
	for _, p := range bad {
		e.s.current().WarnOnce(p)
	}
	facts, err := e.s.options.Stats.Node(ctx)
	if err != nil {
		return false, err
	}
	seen, now := evictions.Observe(facts), time.Now()
	var d evictions.Decision
	e.s.pressure.state, d = evictions.Next(e.s.pressure.state, thresholds, seen, settings.EvictionPressureTransitionPeriod, now)
	e.setConditions(d)
	if !e.s.hub.Down().IsZero() {
		// The runtime is unavailable, so podrun cannot stop a pod, and does not know the usage of
		// the pods.
		return false, nil
	}
	dedicated := evictions.DedicatedImages(facts)
	if e.enforceLimits(ctx, dedicated, now) {
		return true, nil
	}
	if len(d.Met) == 0 {
		e.s.pressure.reported = ""
		return false, nil
	}
	if short := string(d.Met[0].Signal.Resource()); short != e.s.pressure.reported {
		e.s.pressure.reported = short
		e.s.warnNode(evictions.ReasonThresholdMet, "Attempting to reclaim "+short)
	}
	if e.reclaim(ctx, evictions.ReclaimFor(d.Met[0].Signal, dedicated), thresholds) {
		return false, nil
	}
	return e.evictOne(ctx, d, seen, dedicated), nil
}

// warnNode prints a warning where a kubelet emits an event about the node.
func (s *Supervisor) warnNode(reason, message string) {
	n := s.current()
	n.SendWarnings(problem.List{{Object: "node", Reason: reason, Message: message, Warning: true}})
}

// setConditions records the node's conditions; while a condition is set, other commands also refuse pods.
// When a condition ends, setConditions triggers another attempt to start the pods that are waiting for
// its end.
func (e evictor) setConditions(d evictions.Decision) {
	p := &e.s.pressure
	p.mu.Lock()
	before := p.conditions
	p.conditions = d.Conditions
	p.mu.Unlock()
	changed := !slices.Equal(before, d.Conditions)
	if changed || len(d.Conditions) > 0 {
		err := discover.PressureFile.Write(e.s.current().Layout().Serve().Pressure(), d.Until)
		// A full disk has already been reported.
		if err != nil && !store.CannotWrite(err) {
			e.s.current().WarnOnce(problem.WarningOf(fmt.Errorf("save the node's pressure conditions: %w", err)))
		}
	}
	if !changed {
		return
	}
	e.s.warnNode("NodePressure", conditionsText(before, d.Conditions))
	e.s.resourcesFreed()
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	for _, p := range e.s.pods {
		p.check()
	}
}

// conditionsText describes the conditions that have begun and ended.
func conditionsText(before, now []corev1.NodeConditionType) string {
	var parts []string
	for _, c := range now {
		if !slices.Contains(before, c) {
			parts = append(parts, "is under "+string(c))
		}
	}
	for _, c := range before {
		if !slices.Contains(now, c) {
			parts = append(parts, "is no longer under "+string(c))
		}
	}
	return strings.Join(parts, ", ")
}

// reclaim frees resources that no pod uses, and reports whether it freed enough.
func (e evictor) reclaim(ctx context.Context, r evictions.Reclaim, thresholds []evictions.Threshold) bool {
	if !r.Containers && !r.Images {
		return false
	}
	if err := e.free(ctx, r); err != nil && ctx.Err() == nil {
		e.s.current().SendWarnings(problem.List{problem.WarningOf(err)})
	}
	facts, err := e.s.options.Stats.Node(ctx)
	return err == nil && evictions.Resolved(thresholds, evictions.Observe(facts))
}

// free removes dead containers and unused images.
func (e evictor) free(ctx context.Context, r evictions.Reclaim) error {
	var errs []error
	if r.Containers {
		errs = append(errs, reconcile.RemoveDead(ctx, e.s.current()))
	}
	if r.Images && e.s.options.Images != nil {
		errs = append(errs, e.s.images.removeUnused(ctx, e.s))
	}
	return errors.Join(errs...)
}

// candidate is a pod that podrun may evict.
type candidate struct {
	pod    *pod
	object *corev1.Pod
}

// candidates returns the pods that this supervisor may evict: the pods that it supervises, except
// those of `podrun run` and those on which another command is working. The function wanted selects
// pods by UID.
func (s *Supervisor) candidates(wanted func(uid string) bool) []candidate {
	s.mu.Lock()
	layout := s.node.Layout()
	var list []*pod
	for _, p := range s.pods {
		p.mu.Lock()
		if do := p.step.Do; do == Attend || do == Apply {
			list = append(list, p)
		}
		p.mu.Unlock()
	}
	s.mu.Unlock()
	var out []candidate
	for _, p := range list {
		owner, err := store.ReadOwner(layout, p.id)
		if err != nil || owner == nil || !wanted(owner.UID) {
			// The pod has just been deleted, or another part of the supervisor reports the problem with its
			// record.
			continue
		}
		if k := observe.ReadKnown(layout, identity.Pod{Namespace: p.id.Namespace, Name: p.id.Name, UID: owner.UID}); k.Pod != nil {
			out = append(out, candidate{p, k.Pod})
		}
	}
	slices.SortFunc(out, func(a, b candidate) int { return strings.Compare(a.pod.id.String(), b.pod.id.String()) })
	return out
}

func objectsOf(list []candidate) []*corev1.Pod {
	out := make([]*corev1.Pod, len(list))
	for i, c := range list {
		out[i] = c.object
	}
	return out
}

// enforceLimits evicts pods that exceed their local storage limits, and reports whether it
// evicted any. It does so after each round of measurements, and once a minute if a round takes longer.
func (e evictor) enforceLimits(ctx context.Context, dedicated bool, now time.Time) (evicted bool) {
	if !e.s.rounds.takeFresh() && now.Sub(e.s.pressure.enforced) < measureEvery+examineEvery {
		return false
	}
	e.s.pressure.enforced = now
	due := e.s.pressure.limited.candidates(e.s)
	if len(due) == 0 {
		return false
	}
	usage := e.s.options.Stats.Pods(ctx, objectsOf(due))
	for _, c := range due {
		u := usage[string(c.object.UID)]
		if u == nil {
			continue
		}
		if message, signal := evictions.OverLimit(c.object, u, dedicated); message != "" && !evictions.Critical(c.object) {
			evicted = e.evict(ctx, c, signal, reconcile.Eviction{Grace: evictions.Immediate, Message: message}) || evicted
		}
	}
	return evicted
}

// evictOne evicts one pod: the first one in the kubelet's ranking that can be evicted.
func (e evictor) evictOne(ctx context.Context, d evictions.Decision, seen evictions.Observations, dedicated bool) bool {
	list := e.s.candidates(func(string) bool { return true })
	if d.Met[0].Signal.Condition() == corev1.NodeDiskPressure {
		e.s.awaitSizes(ctx)
	}
	usage := e.s.options.Stats.Pods(ctx, objectsOf(list))
	ranked := make([]evictions.Candidate, len(list))
	for i, c := range list {
		ranked[i] = evictions.Candidate{Pod: c.object, Usage: usage[string(c.object.UID)]}
	}
	for _, r := range evictions.Rank(ranked, d.Met[0].Signal, dedicated) {
		at := slices.IndexFunc(list, func(c candidate) bool { return c.object == r.Pod })
		if e.evict(ctx, list[at], string(d.Met[0].Signal), reconcile.Eviction{ForNode: true, Message: evictions.Message(r, d.Met, seen),
			Grace: evictions.Grace(r.Pod, d.Met[0], e.s.current().Settings.EvictionMaxPodGracePeriod)}) {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
	}
	return false
}

// evict evicts a pod, and reports whether the eviction succeeded or is still in progress. In both
// cases, podrun, like the kubelet, evicts no other pod in the same pass.
func (e evictor) evict(ctx context.Context, c candidate, signal string, by reconcile.Eviction) bool {
	err := c.pod.eviction.ask(ctx, by)
	if (err == nil || errors.Is(err, errSlow)) && e.s.options.Evicted != nil {
		e.s.options.Evicted(signal)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, reconcile.ErrOwned) {
		e.s.current().SendWarnings(problem.List{problem.WarningOf(fmt.Errorf("evict pod %s: %w", c.pod.id, err))})
	}
	return err == nil || errors.Is(err, errSlow)
}
