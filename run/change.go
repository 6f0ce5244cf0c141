package run

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
)

// ChangeInput is the input of Change.
type ChangeInput struct {
	Targets
	// Define computes the new definitions, unless Decide is set.
	Define Define
	// Decide returns Define for the definition of the first pod. The targets must then be replicas of one workload.
	// Change calls Decide again with the reason if the new definition is invalid, or if this host would refuse the pod.
	// If Decide returns nil, Change changes nothing.
	Decide func(ctx context.Context, current *corev1.Pod, rejected error) (Define, error)
	// Files contain ConfigMaps and Secrets that the change adds to the pods (input.Read). Change reads them once.
	Files    []string
	Validate manifest.Validate // how to handle unknown and duplicate fields
	// DefineOnly means that only labels and annotations change: no container starts.
	DefineOnly   bool
	Force        bool // recreate the pods even if the change is possible in place
	AllowKubelet bool
	// DryRun makes Change compute and validate the definitions without applying them. If Admit is also set, Change checks
	// whether this host would admit the pods.
	DryRun, Admit bool
}

// OutcomeDryChange is the outcome of a changed pod in a dry run of Change.
const OutcomeDryChange Outcome = "would be changed (dry run)"

// Change changes the definitions in the checkpoints of pods, and applies the results as Apply does. If the new
// definition of one pod is invalid, or in a dry run refused, Change changes no pod, and the error contains the reasons.
// Otherwise the report has one entry for each selected pod: Pod is the new definition, or the present one if it
// remains, and Done describes the change. The errors of pods are in their entries.
func Change(ctx context.Context, n *node.Node, in ChangeInput) (Report, error) {
	d := &redefining{node: n, ChangeInput: in, newest: map[string]*corev1.Pod{}}
	if err := d.read(ctx); err != nil || len(d.targets) == 0 {
		return Report{}, err
	}
	if in.Decide != nil {
		if err := d.decide(ctx); err != nil || d.Define == nil {
			return Report{}, err
		}
	}
	report, changed, objects, err := d.preview()
	switch {
	case err != nil:
		return Report{}, err
	case len(changed) == 0 || in.DryRun && !in.Admit:
		return report, nil
	case in.DryRun:
		problems, err := d.refusals(ctx, objects)
		n.SendWarnings(problems.Warnings())
		return report, errors.Join(err, problem.Refuse(problem.Refused, problems))
	}
	in.working(changed)
	results, err := ChangePods(ctx, n, changed, d.redefine, ApplyOptions{
		AllowKubelet: in.AllowKubelet,
		Force:        in.Force,
		RestartedAt:  !in.DefineOnly,
		DefineOnly:   in.DefineOnly,
	})
	if err != nil {
		return Report{}, err
	}
	d.complete(report, results)
	return report, nil
}

// read selects the pods, and reads the files.
func (d *redefining) read(ctx context.Context) (err error) {
	d.targets, err = d.Find(ctx, d.node)
	if err != nil || len(d.targets) == 0 {
		return err
	}
	if len(d.Files) > 0 {
		if d.files, err = input.Read(ctx, d.Files, input.ReadOptions{}); err != nil {
			return err
		}
	}
	d.node.SendWarnings(manifest.SetGates(d.node.Settings.FeatureGates))
	d.first = map[string]string{}
	for _, replicas := range Replicas(d.targets) {
		for _, t := range replicas[1:] {
			d.first[t.ID.String()] = replicas[0].ID.String()
		}
	}
	return nil
}

// decide calls Decide until the new definition of the first pod is valid and this host would run the pod.
func (d *redefining) decide(ctx context.Context) error {
	if len(Replicas(d.targets)) > 1 {
		return problem.UsageError(fmt.Errorf("%d pods are selected", len(d.targets)), "edit one pod at a time, or use 'podrun patch' for several")
	}
	id := d.targets[0].ID
	c, err := d.stored(id)
	if err != nil {
		return err
	}
	var rejected error
	for {
		d.Define, err = d.Decide(ctx, manifest.Editable(c.Pod), rejected)
		if err != nil || d.Define == nil {
			return err
		}
		next, err := d.compute(id, c)
		rejected = problem.In("pod/"+id.Name, err)
		if next.objects != nil {
			problems, err := d.refusals(ctx, next.objects)
			rejected = errors.Join(err, problem.Refuse(problem.Refused, problems))
		}
		if rejected == nil || ctx.Err() != nil {
			return rejected
		}
	}
}

// preview computes the new definitions without locks. The objects are those of the changed pods.
func (d *redefining) preview() (report Report, changed []Known, objects *manifest.Objects, err error) {
	objects = &manifest.Objects{}
	d.before = map[string]*Current{}
	for _, t := range d.targets {
		c, failed := d.stored(t.ID)
		if failed == nil {
			d.before[t.ID.String()] = d.current(t.ID, c)
			var next redefined
			next, failed = d.compute(t.ID, c)
			report.Entries = append(report.Entries, d.entry(t, next))
			d.node.SendWarnings(next.warnings)
			if next.objects != nil {
				changed = append(changed, t.Known)
				objects.Add(next.objects)
			}
		}
		err = errors.Join(err, problem.In("pod/"+t.ID.Name, failed))
	}
	return report, changed, objects, err
}

// entry returns the entry of a pod before its change is applied.
func (d *redefining) entry(t Target, next redefined) Entry {
	e := Entry{Kind: kindPod, Ref: t.Ref, Result: Result{ID: t.ID, Outcome: OutcomeUnchanged}, Notes: next.Notes}
	switch {
	case next.objects != nil:
		e.Outcome = OutcomeDryChange
		e.Pod = next.objects.Pods[0].Object
		e.Done = next.Done
	case t.Pod != nil:
		e.Pod = manifest.Editable(t.Pod)
	}
	return e
}

// complete fills in the results of the changed pods.
func (d *redefining) complete(report Report, results []Result) {
	byName := map[string]Result{}
	for _, r := range results {
		byName[r.ID.String()] = r
	}
	for i, e := range report.Entries {
		if r, changed := byName[e.ID.String()]; changed {
			report.Entries[i].Result = r
			report.Entries[i].Pod = d.newest[e.ID.String()]
		}
	}
}

// refusals returns the reasons for which this host would refuse changed pods, and warnings.
func (d *redefining) refusals(ctx context.Context, objects *manifest.Objects) (problem.List, error) {
	_, problems, err := d.node.Prepare(ctx, objects, PrepareOptions{
		AllowKubelet: d.AllowKubelet,
		Force:        d.Force,
		RestartedAt:  !d.DefineOnly,
		KeepEnded:    d.DefineOnly,
	})
	return problems, err
}

// stored reads the checkpoint of a pod.
func (d *redefining) stored(id identity.Pod) (*manifest.Checkpoint, error) {
	c, err := lookup.StoredCheckpoint(d.node, id)
	if c == nil && err == nil {
		err = problem.In("pod/"+id.Name, errors.New("its checkpoint was not found"))
	}
	return c, err
}
