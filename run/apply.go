package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/imagepull/auth"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	Timeout       time.Duration // bounds the whole; 0 for no limit
	KeepOnFailure bool          // leave what was made when a pod can't be started
	AllowKubelet  bool
	Wait          lifecycle.Goal // GoalStarted if empty
	Continue      bool           // start the other pods where some are refused
	Force         bool           // run pods again that have ended or have not changed
}

func (o ApplyOptions) goal() lifecycle.Goal {
	if o.Wait == "" {
		return lifecycle.GoalStarted
	}
	return o.Wait
}

// Result is what became of one pod.
type Result struct {
	ID      identity.Pod
	Outcome Outcome
	What    []string // what the outcome is about: the fields that changed, the containers that were restarted
	Status  corev1.PodStatus
	Err     error
}

// Apply brings pods to be started. Everything is validated and admitted before
// the first side effect: an error that comes with no results refused them all.
// Then the pods are started side by side, each with its own rollback; their
// errors are in the results.
func (e *Engine) Apply(ctx context.Context, objects *manifest.Objects, o ApplyOptions) ([]Result, error) {
	ctx, cancel := withTimeout(ctx, o.Timeout)
	defer cancel()
	locks, err := e.lockPods(ctx, objects)
	defer locks.Release()
	if err != nil {
		return nil, err
	}
	targets, err := e.admit(ctx, objects, locks, o)
	if err != nil {
		return nil, orEnded(ctx, err)
	}
	syncers := e.syncers(targets, objects, locks)
	results := make([]Result, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets {
		wg.Go(func() {
			defer syncers[i].lock.Release()
			results[i] = syncers[i].applyOne(ctx, t, o)
		})
	}
	wg.Wait()
	return results, nil
}

// syncers makes the syncers of a command's pods, which share a puller.
func (e *Engine) syncers(targets []prepare.Target, objects *manifest.Objects, locks store.PodLocks) []*syncer {
	out := make([]*syncer, len(targets))
	journals := map[string]*store.Journal{}
	puller := e.newPuller(journals)
	for i, t := range targets {
		out[i] = e.newSyncer(t.Plan, puller, locks[t.Plan.ID.String()])
		alone := *objects
		alone.Pods = objects.Pods[i : i+1]
		out[i].objects = &alone
		journals[t.Plan.ID.UID] = out[i].journal
	}
	return out
}

// newPuller makes the puller of a command, whose events go to the journals of
// their pods, by UID. The map must not change once pulls have begun.
func (e *Engine) newPuller(journals map[string]*store.Journal) *imagepull.Puller {
	return imagepull.NewPuller(e.Client, imagepull.Options{
		MaxParallel: int(e.Settings.MaxParallelImagePulls),
		QPS:         float64(e.Settings.RegistryPullQPS), Burst: int(e.Settings.RegistryBurst),
		RetryAlways: e.Settings.RetryPullAlways, Timeout: e.Settings.PullTimeout,
		BackOffDir: e.layout().ImageBackOff(), Auth: e.keychain().Find,
		RecordDir: e.imageRecords(), Verify: imagepull.Verification{Policy: e.Settings.PullVerification, Allowlist: e.Settings.PullAllowlist},
		Progress: e.Progress, StallTimeout: e.Settings.PullStall,
		Emit: func(ev event.Event) {
			if j := journals[ev.UID]; j != nil {
				j.Emit(ev)
			} else if ev.UID == "" && e.Emit != nil {
				e.Emit(ev) // of an image that is no pod's
			}
		},
	})
}

// imageRecords is where it is kept who pulled which image; "" where the feature
// gate is off.
func (e *Engine) imageRecords() string {
	if !e.Settings.Gate(gateSecretPulled, true) {
		return ""
	}
	return e.layout().ImageRecords()
}

// gateSecretPulled is KEP-2535's, which is on since v1.35.
const gateSecretPulled = "KubeletEnsureSecretPulledImages"

// keychain finds the credentials for images by this node's settings.
func (e *Engine) keychain() *auth.Keychain {
	files, legacy := auth.HostFiles(e.Settings.RootDir, os.Getenv("DOCKER_CONFIG"), os.Getenv("HOME"))
	return &auth.Keychain{AuthFile: e.Settings.RegistryAuth, Files: files, Legacy: legacy,
		ProviderConfig: e.Settings.ProviderConfig, ProviderDir: e.Settings.ProviderBinDir}
}

// applyOne brings one pod to be started, and takes back what it made when that
// fails before the first container was started.
func (s *syncer) applyOne(ctx context.Context, t prepare.Target, o ApplyOptions) Result {
	defer s.lock.Reservation.Release()
	if err := t.Refused(); err != nil {
		return Result{ID: t.Plan.ID, Outcome: OutcomeFailed, Err: err}
	}
	result := Result{ID: t.Plan.ID}
	result.Outcome, result.Err = s.apply(ctx, t, o)
	result.What = s.what(s.applied, result.Outcome)
	if result.Err != nil {
		result.Outcome = OutcomeFailed
		if !o.KeepOnFailure {
			if err := s.rollback(ctx); err != nil {
				result.Err = errors.Join(result.Err, leftBehind(t.Plan.ID, err))
			}
		}
	}
	result.Status = s.status()
	if err := s.journal.Close(); err != nil && result.Err == nil {
		result.Err = err
	}
	return result
}

// leftBehind reports what a rollback could not remove.
func leftBehind(id identity.Pod, err error) error {
	return &problem.Error{Kind: problem.Runtime, Object: "pod " + id.String(), Op: "clean up", Err: err,
		Hint: "'podrun delete " + id.Name + " -n " + id.Namespace + "' tries again"}
}

func (e *Engine) newSyncer(p *prepare.Plan, puller *imagepull.Puller, lock *store.PodLock) *syncer {
	return &syncer{
		Engine: e, plan: p, puller: puller, lock: lock,
		obs: &lifecycle.Observed{}, mine: map[string]bool{}, pulled: map[string]bool{}, exits: map[string]chan struct{}{},
		journal: &store.Journal{Pod: p.ID, Next: e.Emit},
	}
}

// apply does the work of applyOne. Where another command takes the pod over
// before this one has readied it, the pod is admitted again as it is then.
func (s *syncer) apply(ctx context.Context, t prepare.Target, o ApplyOptions) (Outcome, error) {
	for {
		outcome, err := s.applyTarget(ctx, &t, o)
		if errors.Is(err, store.ErrChanged) {
			if t, err = s.admitAgain(ctx, t, o); err == nil {
				continue
			}
			outcome, err = OutcomeFailed, s.orInterrupted(ctx, err)
		}
		if err == nil {
			s.applied = t
		}
		return outcome, err
	}
}

// applyTarget brings a pod as it was admitted to its goal.
func (s *syncer) applyTarget(ctx context.Context, t *prepare.Target, o ApplyOptions) (Outcome, error) {
	s.reserved = t.Change != prepare.ChangeReplace
	if t.Change == prepare.ChangeNew {
		s.undo.push("remove the pod's directory", s.removeDirs)
	}
	if err := s.observeTarget(ctx, *t); err != nil {
		return OutcomeFailed, s.orInterrupted(ctx, runtimeError(s.plan.ID, err))
	}
	if err := s.onlyOurs(); err != nil {
		return OutcomeFailed, err
	}
	if err := s.clearStopped(); err != nil {
		return OutcomeFailed, err
	}
	if d := lifecycle.Next(s.pod(), s.world()); t.Change != prepare.ChangeReplace && d.Ended && s.obs.Sandbox() != nil {
		if t.Change != prepare.ChangeUpdate {
			return s.finish(ctx, d)
		}
		t.Change, t.Old = prepare.ChangeReplace, []prepare.Here{t.Was} // nothing runs that could be updated in place
		s.reserved = false
	}
	if err := s.preempt(ctx, t.Preempts); err != nil {
		return OutcomeFailed, s.orInterrupted(ctx, err)
	}
	if t.Change != prepare.ChangeUnchanged {
		s.pulls = s.puller.Start(ctx, s.plan.Images)
		defer s.pulls.Stop()
	}
	if err := s.prepareChange(ctx, *t); err != nil {
		return OutcomeFailed, s.orInterrupted(ctx, err)
	}
	if err := s.journal.Open(s.plan.Layout); err != nil {
		return OutcomeFailed, err
	}
	if t.Change != prepare.ChangeUnchanged {
		for _, w := range s.plan.Warnings {
			s.journal.Emit(w)
		}
	}
	ended, err := s.until(ctx, o.goal())
	switch {
	case err != nil:
		return OutcomeFailed, err
	case ended && o.goal() == lifecycle.GoalCompleted:
		// How it ended is in its status.
	case ended:
		return s.alreadyEnded()
	case t.Change == prepare.ChangeUnchanged && s.acted, t.Change == prepare.ChangeReplace && t.Forced:
		return OutcomeRestarted, nil
	}
	return outcomes[t.Change], nil
}

// observeTarget takes in what the runtime has of the pod. Of a new one it has nothing,
// unless the facts, which were read under this same lock, have its UID.
func (s *syncer) observeTarget(ctx context.Context, t prepare.Target) (err error) {
	ofThis := func(p host.Pod) bool { return p.UID == s.plan.ID.UID }
	if t.Change == prepare.ChangeNew && !slices.ContainsFunc(s.plan.Facts.Pods, ofThis) {
		return nil
	}
	s.obs, err = s.observe(ctx, s.plan.ID.UID)
	return err
}

// outcomes are those of pods that were brought to be started.
var outcomes = map[prepare.Change]Outcome{
	prepare.ChangeNew: OutcomeCreated, prepare.ChangeUnchanged: OutcomeUnchanged,
	prepare.ChangeUpdate: OutcomeUpdated, prepare.ChangeReplace: OutcomeReplaced,
}

// what lists what an outcome is about.
func (s *syncer) what(t prepare.Target, o Outcome) []string {
	switch o {
	case OutcomeUpdated, OutcomeReplaced:
		return t.Changes
	case OutcomeRestarted:
		var names []string
		for _, c := range lifecycle.SpecContainers(s.pod()) {
			if have := s.obs.Container(c.Container.Name); have != nil && s.mine[have.ID] {
				names = append(names, have.Name)
			}
		}
		return names
	}
	return nil
}

// finish stops what is left of a pod that has ended: its sidecars, and the
// sandbox that holds its addresses and ports, as a kubelet does.
func (s *syncer) finish(ctx context.Context, d lifecycle.Decision) (Outcome, error) {
	if len(d.Actions) > 0 {
		if err := s.openJournal(); err != nil {
			return OutcomeFailed, err
		}
	}
	if err := s.execute(ctx, d.Actions); err != nil {
		return OutcomeFailed, s.orInterrupted(ctx, err)
	}
	return s.alreadyEnded()
}

// alreadyEnded is the outcome for a pod that is over: nothing to do when it has
// succeeded, an error when it has failed.
func (s *syncer) alreadyEnded() (Outcome, error) {
	status := s.status()
	if status.Phase != corev1.PodFailed {
		return OutcomeUnchanged, nil
	}
	return OutcomeFailed, &problem.Error{
		Kind: problem.Failed, Object: "pod " + s.plan.ID.String(), Err: errors.New(failedWhy(status)),
		Hint: "'podrun logs' shows why; 'podrun restart " + s.plan.ID.Name + "' runs it again",
	}
}

// failedWhy says which container made the pod fail.
func failedWhy(status corev1.PodStatus) string {
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, c := range list {
			if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
				return fmt.Sprintf("has failed: container %s exited with %d (%s)", c.Name, t.ExitCode, t.Reason)
			}
		}
	}
	return "has failed"
}

func (s *syncer) world() lifecycle.World {
	w := lifecycle.World{Observed: s.obs, Hashes: s.plan.Hashes(), Now: time.Now(), Since: lifecycle.TakenOn(s.pod(), s.obs)}
	w.Started, _, w.Unhealthy = s.probed()
	return w
}

// runtimeError names the pod in an error of the runtime.
func runtimeError(id identity.Pod, err error) error {
	return &problem.Error{Kind: problem.Runtime, Object: "pod " + id.String(), Err: err}
}
