package run

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/servicesync"
	"github.com/podrun/podrun/run/store"
)

// OutcomeConfigured is the outcome of Apply for an object without pods that it has changed.
const OutcomeConfigured Outcome = "configured"

// ApplyInput is the input of Apply.
type ApplyInput struct {
	Objects *manifest.Objects // without CronJobs (CutCronJobs)
	// CronJobs are the templates of the input's CronJobs.
	CronJobs []manifest.Pod
	Options  ApplyOptions
	// Incomplete means that the input lacks objects of files that could not be read. Apply then prunes
	// nothing, because such a file may define a pod that appears to be missing.
	Incomplete bool
	// Prune selects the objects to delete if the input does not contain them; nil for none.
	Prune *Prune
}

// Prune selects objects of podrun. Like kubectl, Apply considers only the namespaces of the input's pods and
// workloads, or Namespace if there are none; for Services, also those of the input's Services.
type Prune struct {
	Namespace string
	Match     func(labels map[string]string) bool
}

// application is one Apply in progress.
type application struct {
	node *node.Node
	ApplyInput
	report Report
	// undo removes the Services that this Apply has recorded, and restores those that it has changed.
	undo func() error
}

// Apply passes CronJobs to `podrun serve`, records Services, starts pods and removes those that the input no longer
// requests. If the input has only ConfigMaps and Secrets, Apply updates the pods that refer to them instead. Unless the
// report says Started, Apply has started no pod, and has undone its changes of Services; it has
// also undone them if all pods have failed and were removed. The errors of pods are in
// their entries; the error is that of a step which concerns no single pod.
func Apply(ctx context.Context, n *node.Node, in ApplyInput) (Report, error) {
	a := &application{node: n, ApplyInput: in, undo: func() error { return nil }}
	if err := a.start(ctx); err != nil {
		a.report.drop(kindService)
		return a.report, errors.Join(err, a.undo())
	}
	a.report.Started = true
	err := a.complete(ctx)
	a.note()
	return a.report, err
}

// start performs the steps of which each requires the previous one.
func (a *application) start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		a.applyCronJobs,
		a.recordServices, // before the pods start, so that their containers get names and variables
		a.startPods,
		a.refreshPods,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// complete performs the steps that follow the start of pods, even if some pods have failed.
func (a *application) complete(ctx context.Context) error {
	err := errors.Join(a.removeSurplus(ctx), a.updateEndpoints(ctx))
	if err == nil {
		err = a.prune(ctx)
	}
	if a.Options.Wait == lifecycle.GoalCompleted {
		a.report.ended()
	}
	return err
}

func (a *application) recordServices(ctx context.Context) (err error) {
	a.node.SendWarnings(servicesync.Notes(a.Objects.Services))
	changes, undo, err := servicesync.Apply(ctx, a.node, a.Objects.Services, servicesync.Options{})
	a.undo = undo
	a.report.addServices(false, changes...)
	return err
}

// startPods starts the pods of the input. An input may have only CronJobs and Services.
func (a *application) startPods(ctx context.Context) error {
	if len(a.Objects.Pods) == 0 && len(a.CronJobs) > 0 && a.Prune == nil || a.refreshes() {
		return nil
	}
	idle := a.idleWorkloads()
	results, err := ApplyPods(ctx, a.node, a.Objects, a.Options)
	if err == nil {
		a.report.Entries = append(a.report.Entries, idle...)
	}
	for i, r := range results {
		a.report.Entries = append(a.report.Entries, Entry{Kind: kindPod, Result: r, Pod: a.Objects.Pods[i].Object,
			Remains: r.Err != nil && len(lookup.Remaining(a.node, []identity.Pod{r.ID})) > 0})
	}
	return err
}

// idleWorkloads returns the entries of the input's workloads without pods, which no entry of a pod reports. It must be
// called before their records are written.
func (a *application) idleWorkloads() (out []Entry) {
	for _, w := range a.Objects.Workloads {
		if w.Replicas > 0 {
			continue
		}
		outcome := OutcomeConfigured
		was, err := store.ReadWorkload(a.node.Layout(), w.ID())
		switch {
		case err != nil: // ApplyPods warns that it replaces the record
		case was == nil || was.Deleted || was.Kind != w.Kind:
			outcome = OutcomeCreated
		default:
			is, err := newRecord(a.node, w, a.Objects)
			if err == nil && requestsSame(is, *was) && is.Template == was.Template {
				outcome = OutcomeUnchanged
			}
		}
		out = append(out, Entry{Kind: w.Kind, Result: Result{ID: w.ID(), Outcome: outcome}})
	}
	return out
}

// removeSurplus removes the replicas that earlier definitions of the input's workloads requested.
func (a *application) removeSurplus(ctx context.Context) error {
	results, err := RemoveSurplus(ctx, a.node, a.Objects)
	a.report.add(true, results...)
	return err
}

// updateEndpoints updates the endpoints of Services. If no pod is left, it undoes the changes of Services instead.
func (a *application) updateEndpoints(ctx context.Context) error {
	if a.noneLeft() {
		a.report.drop(kindService)
		return a.undo()
	}
	if len(a.Objects.Services) == 0 || ctx.Err() != nil {
		return nil // FinishServices updates the Services of other manifests, and those of an interrupted command
	}
	omitted, err := servicesync.Sync(ctx, a.node)
	a.node.SendWarnings(omitted)
	if err != nil {
		return err
	}
	a.node.ServicesSynced.Store(true)
	unforwarded, err := servicesync.UnforwardedPorts(ctx, a.node, a.Objects.Services)
	a.node.SendWarnings(unforwarded)
	return err
}

// noneLeft reports whether all pods of the input have failed and were removed.
func (a *application) noneLeft() bool {
	requested := a.requestedPods()
	return len(requested) > 0 && !slices.ContainsFunc(requested, func(e Entry) bool { return e.Err == nil || e.Remains })
}

func (a *application) requestedPods() []Entry {
	return slices.DeleteFunc(a.report.Pods(), func(e Entry) bool { return e.Unrequested })
}

// prune deletes the pods, workloads and Services that match Prune and that the input does not contain. If a pod
// has failed, it deletes nothing: that pod may depend on one of them.
func (a *application) prune(ctx context.Context) error {
	failed := slices.ContainsFunc(a.requestedPods(), func(e Entry) bool { return e.Err != nil })
	if a.Prune == nil || a.Incomplete || failed {
		return nil
	}
	results, err := a.prunePods(ctx)
	a.report.add(true, results...)
	if len(results) > 0 {
		a.node.ServicesSynced.Store(false) // DeleteServices or FinishServices removes the pods from the endpoints
	}
	if err != nil || slices.ContainsFunc(results, func(r Result) bool { return r.Err != nil }) {
		return err
	}
	namespaces := a.namespaces()
	for _, s := range a.Objects.Services {
		namespaces[s.Namespace] = true
	}
	deleted, err := DeleteServices(ctx, a.node, func(s *corev1.Service, _ string) bool {
		return namespaces[s.Namespace] && a.Objects.Services[s.Namespace+"/"+s.Name] == nil && a.Prune.Match(s.Labels)
	})
	a.report.addServices(true, deleted...)
	return err
}

// namespaces returns the namespaces of the input's pods and workloads, or that of Prune if there are none.
func (a *application) namespaces() map[string]bool {
	out := map[string]bool{}
	for _, p := range a.Objects.Pods {
		out[p.Object.Namespace] = true
	}
	for _, w := range a.Objects.Workloads {
		out[w.ID().Namespace] = true
	}
	if len(out) == 0 {
		out[a.Prune.Namespace] = true
	}
	return out
}

// note adds the warnings for a host without supervisor: podrun exits now.
func (a *application) note() {
	if a.node.Supervised() || a.Options.Wait == lifecycle.GoalCompleted {
		return
	}
	if wants := unenforced(a.requestedPods()); len(wants) > 0 {
		a.report.Notes = append(a.report.Notes, problem.Problem{Warning: true,
			Message: "podrun exits now and no longer enforces " + strings.Join(wants, ", "),
			Hint:    "use 'podrun serve' for supervision, or run 'podrun apply' again to restart terminated containers"})
	}
	if slices.ContainsFunc(a.report.Of(kindService), func(e Entry) bool { return !e.Unrequested && e.Outcome != OutcomeUnchanged }) {
		a.report.Notes = append(a.report.Notes, problem.Problem{Warning: true,
			Message: "podrun exits now: Services keep their current endpoints until the next podrun command changes a pod",
			Hint:    "use 'podrun serve' to update them when pods restart or are not ready"})
	}
}

// unenforced returns the settings of started pods that require supervision, without duplicates.
func unenforced(pods []Entry) (out []string) {
	for _, e := range pods {
		if e.Err != nil || e.Outcome == OutcomeUnchanged {
			continue
		}
		for _, setting := range lifecycle.Unenforced(e.Pod) {
			if !slices.Contains(out, setting) {
				out = append(out, setting)
			}
		}
	}
	return out
}
