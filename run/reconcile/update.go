package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// Watch makes a worker that supervises its pod judge the pod's updates (docs/design/rollback.md).
type Watch struct {
	// Source is the hash of the source's definition that the pod has; "" if a command defined the pod. Workload is
	// store.Rejected.Workload.
	Source, Workload string
	// Available is called when the pod has been ready for long enough. It reports whether podrun may record the definition
	// as the last good one. It may be nil.
	Available func() bool
}

// ErrRollBack ends the supervision of a pod whose definition is bad: the record of its update has the state RollingBack.
var ErrRollBack = errors.New("the update failed, and podrun restores the last good definition")

// awaitOthers is the interval at which a worker calls Watch.Available again, and looks for the first result of liveness probes.
const awaitOthers = 5 * time.Second

// updateWatch is a Watch in progress. A nil *updateWatch judges nothing.
type updateWatch struct {
	Watch
	pod     *pod.Pod
	lease   *lease.Lease
	probing *probes
	report  func(error)
	plan    *prepare.Plan       // the plan of the definition that record is about; nil if record was not read yet
	record  *store.UpdateRecord // nil if the pod's updates are not watched
	saved   lifecycle.Progress  // on disk
	retry   time.Time           // the time of the next attempt after an error
}

// judge decides whether the definition of the pod is good, and records that. The pod's lock must be held. The error is
// ErrRollBack if it is bad. Errors of the disk and of the runtime are reported, and retried.
func (w *updateWatch) judge(ctx context.Context, d *lifecycle.Decision) error {
	if w == nil || w.pod.Plan.Checkpoint.SecretsLost || w.lease.Lock.Held == nil || !w.lease.Lock.Owned() || w.lease.RuntimeUnavailable() {
		return nil
	}
	now := time.Now()
	if now.Before(w.retry) {
		d.DecideBy(w.retry)
		return nil
	}
	err := w.judgeAt(ctx, now, d)
	if err == nil || errors.Is(err, ErrRollBack) || ctx.Err() != nil {
		return err
	}
	w.report(fmt.Errorf("pod %s: watch its update: %w", w.pod.Plan.ID, err))
	w.retry = now.Add(firstRetry)
	d.DecideBy(w.retry)
	return nil
}

func (w *updateWatch) judgeAt(ctx context.Context, now time.Time, d *lifecycle.Decision) error {
	if w.plan != w.pod.Plan {
		if err := w.read(); err != nil {
			return err
		}
		w.plan = w.pod.Plan
	}
	if w.record == nil || w.record.State != store.UpdateProgressing && w.record.State != store.UpdateExceeded {
		return nil
	}
	status := w.pod.Status()
	// A container whose liveness probe fails is ready until podrun kills it.
	alive, known := w.pod.Prober.Alive()
	ready := podutil.IsPodReadyConditionTrue(status) && w.probing.confirmed(true) && alive
	var v lifecycle.Verdict
	w.record.Progress, v = w.record.Progress.Judge(w.pod.Spec(), w.pod.World(), status, ready, w.plan.Progress)
	switch {
	case v.Good && !known, v.Good && w.Available != nil && !w.Available():
		d.DecideBy(now.Add(awaitOthers)) // the first liveness probe, or the other replicas
		return nil
	case v.Good:
		return w.keepGood(ctx, now)
	case v.Bad() && w.record.State == store.UpdateProgressing:
		return w.reject(v, now)
	case !v.Until.IsZero():
		d.DecideBy(v.Until)
	}
	if w.record.State != store.UpdateProgressing {
		return nil
	}
	// A killed process loses at most this time.
	step := max(w.plan.Progress.Deadline/10, time.Second)
	d.DecideBy(now.Add(step))
	if p := w.record.Progress; p.Spent-w.saved.Spent < step && p.Sandbox == w.saved.Sandbox {
		return nil
	}
	return w.write()
}

// pause excludes a time in which the state of the pod is unknown.
func (w *updateWatch) pause() {
	if w != nil && w.record != nil {
		w.record.Progress = w.record.Progress.Pause()
	}
}

// read reads the record of the update to the pod's definition. If there is none, because the pod is new or because the
// update was not watched, it begins one.
func (w *updateWatch) read() error {
	layout, id := w.pod.Plan.Layout, w.pod.Plan.ID
	w.record = nil
	if w.pod.Plan.Progress.Deadline == 0 {
		return nil
	}
	hash := w.pod.Plan.Checkpoint.Hash()
	r, err := store.ReadUpdate(layout, id)
	if err != nil {
		return err
	}
	if r == nil || r.Definition != hash || r.State == store.UpdateNone {
		next := store.UpdateRecord{State: store.UpdateProgressing, Definition: hash, Source: w.Source, At: time.Now().UTC()}
		if r != nil {
			next.Images, next.Rejected = r.Images, r.Rejected
		}
		r = &next
	}
	w.saved = r.Progress
	r.Progress = r.Progress.Resume()
	w.record = r
	return nil
}

func (w *updateWatch) write() error {
	if err := store.WriteUpdate(w.pod.Plan.Layout, w.pod.Plan.ID, *w.record); err != nil {
		return err
	}
	w.saved = w.record.Progress
	return nil
}

// keepGood records the definition of the pod as the last good one.
func (w *updateWatch) keepGood(ctx context.Context, now time.Time) error {
	images, err := goodOf(ctx, w.pod.Node, &store.LastGood{Made: w.pod.Plan.Checkpoint, Hash: w.record.Definition}, w.pod.Plan.ID, w.pod.Observed)
	if err != nil {
		return err
	}
	next := *w.record
	next.State = store.UpdateGood
	next.At = now.UTC()
	next.Images = images
	next.Reason = ""
	next.Message = ""
	next.Progress = lifecycle.Progress{}
	w.record = &next
	if err := w.write(); err != nil {
		return err
	}
	w.pod.Emit(event.Normal, event.UpdateComplete, "", "the definition is good: podrun restores it if a later update fails")
	return nil
}

// goodOf stores the last good definition of a pod, and returns the IDs of its images. The argument obs has the containers
// that use them.
func goodOf(ctx context.Context, n *node.Node, good *store.LastGood, id identity.Pod, obs *lifecycle.Observed) (images []string, err error) {
	if good.Made.Images, err = ImagesOf(ctx, n, good.Made.Pod, obs); err != nil {
		return nil, err
	}
	return good.ImageIDs(), store.KeepGood(n.Layout(), id, *good)
}

// ImagesOf returns the IDs of the images of a pod, by their names in the pod. If a container exists, this is the image that
// it was created from; otherwise it is the image to which the name refers now.
func ImagesOf(ctx context.Context, n *node.Node, of *corev1.Pod, obs *lifecycle.Observed) (map[string]string, error) {
	plan, _ := imagepull.New(of, identity.Pod{}, "")
	ids := map[string]string{}
	for _, image := range plan.Images {
		ref := image.Ref
		for _, c := range image.Containers {
			if have := obs.Newest(c.Name); have != nil && have.ImageID != "" {
				ref = have.ImageID
			}
		}
		found, err := n.Client.Images.Status(ctx, &runtimeapi.ImageSpec{Image: ref})
		if err != nil {
			return nil, err
		}
		if found.GetId() != "" {
			ids[image.Name] = found.GetId()
		}
	}
	return ids, nil
}

// reject records that the definition is bad. If podrun can restore an earlier one, it returns ErrRollBack.
func (w *updateWatch) reject(v lifecycle.Verdict, now time.Time) error {
	id := w.pod.Plan.ID
	good, err := store.ReadGood(w.pod.Plan.Layout, id)
	if err != nil && !store.IsCorrupt(err) && !store.IsNewer(err) {
		return err
	}
	next := *w.record
	next.State = store.UpdateExceeded
	next.Reason = v.Reason
	next.Message = event.Cut(v.Message)
	next.At = now.UTC()
	restores := err == nil && good != nil && good.Hash != next.Definition
	if restores {
		next.State = store.UpdateRollingBack
		if next.Source != "" {
			next.Rejected = &store.Rejected{Source: next.Source, Workload: w.Workload, Reason: next.Reason, Message: next.Message, At: next.At}
		}
	}
	w.record = &next
	if err := w.write(); err != nil {
		w.plan = nil // read the state again
		return err
	}
	if restores {
		return ErrRollBack
	}
	w.pod.Emit(event.Warning, event.ProgressDeadlineExceeded, "", "the definition is bad, and podrun knows no earlier one that was good: "+v.Reason+": "+v.Message)
	return nil
}

// beginUpdate records an update before podrun makes it. If it has no record of the previous definition and the pod is ready,
// it first records that definition as the last good one. A failure is only a warning, like that of keepRevision.
func (a *applying) beginUpdate(ctx context.Context, t prepare.Target, o ApplyOptions) {
	if o.RollsBack {
		return // the record has the state RollingBack
	}
	if err := a.recordUpdate(ctx, t, o); err != nil {
		a.pod.Node.SendWarnings(problem.List{problem.WarningOf(err)})
	}
}

func (a *applying) recordUpdate(ctx context.Context, t prepare.Target, o ApplyOptions) error {
	plan, was := a.pod.Plan, t.Was
	before, err := store.ReadUpdate(plan.Layout, plan.ID)
	watches := plan.Progress.Deadline > 0
	if err != nil || before == nil && !watches {
		return err
	}
	next := store.UpdateRecord{Definition: plan.Checkpoint.Hash(), Source: o.Source, At: time.Now().UTC()}
	hadHash := was.Made.Hash()
	if next.Definition == hadHash && hadHash != "" {
		return nil // a restart
	}
	if before != nil {
		next.Images = before.Images
		if o.Source == "" {
			next.Rejected = before.Rejected
		}
	}
	if watches {
		next.State = store.UpdateProgressing
		// If another update is recorded as progressing, it was interrupted before it took effect.
		unrecorded := before == nil || before.State == store.UpdateNone || before.Definition != hadHash && before.State != store.UpdateProgressing
		if unrecorded && hadHash != "" && was.Observed != nil && !was.Ended && !was.Ending && was.Observed.Kept.IsReady() {
			if next.Images, err = goodOf(ctx, a.pod.Node, &store.LastGood{Made: was.Made, Hash: hadHash}, was.ID, was.Observed); err != nil {
				return err
			}
		}
	}
	return store.WriteUpdate(plan.Layout, plan.ID, next)
}
