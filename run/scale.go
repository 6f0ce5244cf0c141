package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// ScaleInput is the input of Scale.
type ScaleInput struct {
	ApplyOptions
	Kind     string       // of the workload
	ID       identity.Pod // of the workload, without a UID
	Replicas int32        // the new number of pods
	// If Current is not nil, Scale fails unless the workload has this number of pods before the
	// change.
	Current *int32
	// Claims are directories of this host for claims, by name, in addition to those of the settings.
	Claims map[string]string
	// DryRun makes Scale check the change without performing it. If Admit is also set, Scale checks
	// whether this host would admit the pods.
	DryRun, Admit bool
}

// scaleAttempts is the maximum number of times that Scale starts missing pods and removes surplus
// ones while other commands change them.
const scaleAttempts = 5

// OutcomeScaled is the outcome of a workload whose number of pods Scale has recorded. If the report or Scale
// contains an error, podrun serve, or the same Scale, starts and removes the remaining pods.
const OutcomeScaled Outcome = "scaled"

// Scale changes the number of pods of a workload. It records the number before it starts or removes a
// pod, so that podrun serve, or the same command, completes an interrupted Scale. Scale does not change pods that
// already exist. The report has an entry for the workload if its number has changed, and one for each pod that
// Scale has started or removed.
func Scale(ctx context.Context, n *node.Node, in ScaleInput) (Report, error) {
	ctx, cancel := wait.WithTimeout(ctx, in.Timeout)
	defer cancel()
	w, err := readWorkload(n, in.Kind, in.ID)
	if err != nil {
		return Report{}, err
	}
	if is := w.desired(); in.Current != nil && *in.Current != is {
		return Report{}, &problem.Error{Kind: problem.Failed, Object: w.String(),
			Err:  fmt.Errorf("expected replicas to be %d, was %d", *in.Current, is),
			Hint: "run 'podrun get " + w.String() + "' to show the number, or omit --current-replicas"}
	}
	objects, err := w.scaled(in.Replicas)
	if err != nil {
		return Report{}, err
	}
	if unused := serveClaims(n, objects, in.Claims); len(unused) > 0 {
		return Report{}, &problem.Error{Kind: problem.Usage, Object: "--pvc", Err: fmt.Errorf("no pod of %s uses the claim %s", w, unused[0]),
			Hint: "use the name of a claim, for a StatefulSet TEMPLATE-NAME-INDEX: data-db-2"}
	}
	report := Report{Entries: []Entry{{Kind: in.Kind, Result: Result{ID: w.id, Outcome: OutcomeScaled}}}}
	if in.DryRun {
		return report, checkScale(ctx, n, w, objects, in)
	}
	if w.origin != "" {
		// podrun serve removes the pods when the file is removed.
		in.Origin.Command = store.OriginServe
	}
	record, restore, err := recordScale(ctx, n, w, objects.Workloads[0], in.Replicas)
	if err != nil {
		return Report{}, err
	}
	results, err := converge(ctx, n, w, record.Change, in)
	switch {
	case isOtherScale(err):
		report.Entries = nil
	case err != nil && len(results) == 0:
		return Report{}, errors.Join(err, restore())
	}
	report.add(false, results...)
	return report, err
}

// checkScale is the part of a dry run that checks the missing pods against this host.
func checkScale(ctx context.Context, n *node.Node, w *workload, objects *manifest.Objects, in ScaleInput) error {
	if objects = w.missing(objects, true); !in.Admit || len(objects.Pods) == 0 {
		return nil
	}
	_, problems, err := n.Prepare(ctx, objects, PrepareOptions{AllowKubelet: in.AllowKubelet})
	if err != nil {
		return err
	}
	return problem.Refuse(problem.Refused, problems)
}

// converge starts the missing pods and removes the surplus ones, until the workload has n pods or
// another command changes the requested number.
func converge(ctx context.Context, n *node.Node, w *workload, change string, in ScaleInput) (results []Result, err error) {
	for attempt := 1; ; attempt++ {
		if w, err = readWorkload(n, w.kind, w.id); err != nil {
			return results, err
		}
		if w.record == nil || w.record.Change != change {
			removed, err := removeSurplus(ctx, n, w.kind, w.id)
			return append(results, removed...), errors.Join(&otherScale{of: w.String()}, err)
		}
		objects, err := w.scaled(in.Replicas)
		if err != nil {
			return results, err
		}
		_ = serveClaims(n, objects, in.Claims) // Scale has reported the claims that no pod uses
		var superseded []Result                // the next attempt reports these pods, if they still need a change
		if objects = w.missing(objects, true); len(objects.Pods) > 0 {
			started, err := ApplyPods(ctx, n, objects, in.ApplyOptions)
			if err != nil {
				return results, err
			}
			for _, r := range started {
				if reconcile.IsSuperseded(r.Err) {
					superseded = append(superseded, r)
				} else {
					results = append(results, r)
				}
			}
		}
		removed, err := removeSurplus(ctx, n, w.kind, w.id)
		results = append(results, removed...)
		if err != nil || len(superseded) == 0 || attempt == scaleAttempts {
			return append(results, superseded...), err
		}
	}
}

// serveClaims assigns directories to the claims of replicas, and returns the names in claims that no pod
// uses. A directory in claims has precedence over the volume that the other replicas use, and that volume
// has precedence over the directory in the settings.
func serveClaims(n *node.Node, objects *manifest.Objects, claims map[string]string) (unused []string) {
	settings := maps.Clone(n.Settings.Claims)
	for _, c := range objects.Claims {
		if c.Spec.VolumeName != "" {
			delete(settings, c.Name)
		}
	}
	_ = objects.ServeClaims(settings) // the settings also contain the claims of other workloads
	return objects.ServeClaims(claims)
}

// otherScale is the error of Scale if another command has changed the requested number of pods.
type otherScale struct{ of string }

func (e *otherScale) Error() string {
	return e.of + ": another command has changed the number of replicas"
}

func isOtherScale(err error) bool {
	_, ok := errors.AsType[*otherScale](err)
	return ok
}

// workload is the state of a workload whose replicas podrun honours.
type workload struct {
	kind     string
	id       identity.Pod
	record   *store.WorkloadRecord // nil if the workload has no record
	replicas []store.Replica       // the pods that exist
	origin   string                // the file of podrun serve that defines the workload; "" if there is none
}

// String returns the name as kubectl prints it: deployment/web.
func (w *workload) String() string { return lookup.Ref{Kind: w.kind, Name: w.id.Name}.String() }

// readWorkload reads a workload. The error is of kind Failed if the workload does not exist, or if
// podrun runs only one pod for it.
func readWorkload(n *node.Node, kind string, id identity.Pod) (*workload, error) {
	w := &workload{kind: kind, id: identity.Pod{Namespace: id.Namespace, Name: id.Name}}
	var err error
	if w.record, err = store.ReadWorkload(n.Layout(), id); err != nil {
		return nil, &problem.Error{Kind: problem.Runtime, Object: w.String(), Err: err, Hint: "apply the manifest again"}
	}
	if w.record != nil && w.record.Kind != kind {
		w.record = nil
	}
	if w.replicas, err = store.StoredReplicas(n.Layout(), kind, w.id); err != nil {
		return nil, err
	}
	if w.record != nil && !w.record.Deleted || len(w.replicas) > 0 {
		w.origin, err = originOf(n, w)
		return w, err
	}
	ref := lookup.Ref{Kind: kind, Name: id.Name}
	if _, err := ref.Resolve(n.Layout(), id.Namespace); err != nil {
		return nil, err
	}
	if _, exists := ref.DefinedIn(n.Layout(), id.Namespace); exists {
		return nil, &problem.Error{Kind: problem.Failed, Object: w.String(), Err: errors.New("podrun runs one pod for it"),
			Hint: "add the annotation " + identity.AnnotationReplicas + ": " + identity.ReplicasHonour + " to the " + kind + " and apply it again; to stop its pod, run 'podrun stop " + w.String() + "'"}
	}
	return nil, &problem.Error{Kind: problem.Failed, Object: strings.ToLower(kind) + " " + id.Name,
		Err: problem.ErrNotFound, Hint: "run 'podrun get all -A' to list the workloads"}
}

// originOf returns the file of podrun serve that defines a workload.
func originOf(n *node.Node, w *workload) (string, error) {
	if w.record != nil {
		return w.record.Origin, nil
	}
	for _, r := range w.replicas {
		s, err := store.ReadSource(n.Layout(), r.ID)
		if err != nil {
			return "", err
		}
		if s != nil && filepath.Dir(s.Path) != n.Layout().Workloads() {
			return s.Path, nil
		}
	}
	return "", nil
}

// desired returns the number of pods that the workload must have.
func (w *workload) desired() int32 {
	if w.record != nil {
		return w.record.Replicas
	}
	if n := w.replicas[0].Checkpoint.Definition.Replicas(); n != nil {
		return *n
	}
	return 1
}

// template returns the definition of the workload's pods.
func (w *workload) template() (manifest.Checkpoint, error) {
	if len(w.replicas) > 0 {
		return w.replicas[0].Checkpoint, nil
	}
	c, err := w.record.Checkpoint()
	switch {
	case err == nil && c == nil:
		err = errors.New("it has no definition")
	case err == nil:
		return *c, nil
	}
	return manifest.Checkpoint{}, &problem.Error{Kind: problem.Failed, Object: w.String(), Err: err, Hint: "apply the manifest again"}
}

// scaled returns the objects with n pods of the workload. The error is of kind Manifest if the
// workload cannot have n pods.
func (w *workload) scaled(count int32) (*manifest.Objects, error) {
	c, err := w.template()
	if err != nil {
		return nil, err
	}
	if c.SecretsLost && count > 0 {
		return nil, store.LostSecrets(identity.Pod{Namespace: c.Pod.Namespace, Name: c.Pod.Name})
	}
	objects, problems := manifest.Scale(c, count)
	return objects, problem.Refuse(problem.Manifest, problems)
}

// missing returns the objects without the pods that already exist. If unfinished is true, it also returns
// those that a killed process may not have started; podrun serve resumes these itself.
func (w *workload) missing(objects *manifest.Objects, unfinished bool) *manifest.Objects {
	exists := map[string]bool{}
	for _, r := range w.replicas {
		exists[r.ID.Name] = !r.Ending && !(unfinished && r.Unfinished)
	}
	out := *objects
	out.Pods = nil
	out.Workloads = nil
	for _, p := range objects.Pods {
		if !exists[p.Object.Name] {
			out.Pods = append(out.Pods, p)
		}
	}
	return &out
}
