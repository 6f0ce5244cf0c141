package run

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/servicesync"
)

// DeleteInput selects the objects that Delete deletes.
type DeleteInput struct {
	Options   DeleteOptions
	Namespace string // of Named and Every
	Named     []lookup.Ref
	Every     *Selection        // instead of names; nil if there are names or files
	Files     *manifest.Objects // the objects of manifests; nil if there are none
	// IgnoreMissing makes a named object that does not exist part of the report's Missing instead of an
	// error.
	IgnoreMissing bool
	DryRun        bool // delete nothing, and report what would be deleted
	// Working is called with the pods before the first of them is stopped; it may be nil.
	Working func([]identity.Pod)
}

// Selection selects all objects of a namespace that match.
type Selection struct {
	AllNamespaces bool
	Kinds         []string // the kinds that the user named; empty for pods
	Services      bool     // also the Services
	Labelled      bool     // a label selector was given
	Labels        func(map[string]string) bool
	Pods          func(Known) bool // whether a pod matches the kinds and the labels
}

// Outcomes of Delete, in addition to those of pods.
const (
	// OutcomeMarked: the workload is marked as deleted, so that `podrun serve` starts no pods of it, but its
	// pods may remain.
	OutcomeMarked Outcome = "marked as deleted, but its pods may remain"
	// OutcomeDryDelete is the outcome of a dry run.
	OutcomeDryDelete Outcome = "would be deleted (dry run)"
)

// deletion is one Delete in progress.
type deletion struct {
	node *node.Node
	DeleteInput
	report Report
	// jobOf maps the namespace/name of a pod to the Job or CronJob of Files that defines it.
	jobOf map[string]lookup.Ref
	// gone are the Jobs, CronJobs and workloads that this Delete has deleted or marked. A pod of one of them
	// that does not exist is not missing.
	gone    map[object]bool
	missing error
}

// object identifies an object of any kind.
type object struct {
	namespace string
	lookup.Ref
}

// Delete deletes Jobs and CronJobs with their pods, marks workloads as deleted, removes pods and everything that
// podrun created for them, and removes Services. It can be repeated if it is interrupted. The report contains what
// has been deleted, even if there is an error; the errors of pods are in their entries.
func Delete(ctx context.Context, n *node.Node, in DeleteInput) (Report, error) {
	d := &deletion{node: n, DeleteInput: in, jobOf: map[string]lookup.Ref{}, gone: map[object]bool{}}
	d.Options.Found = in.Every == nil
	if !in.DryRun {
		d.Options.Basics = ReadBasics(ctx, n)
	}
	err := d.run(ctx)
	return d.report, errors.Join(d.missing, err)
}

func (d *deletion) run(ctx context.Context) error {
	if err := d.deleteJobs(ctx); err != nil {
		return err
	}
	marked, forget, err := d.markWorkloads(ctx)
	if err != nil {
		return err
	}
	pods, err := d.find(ctx)
	if err != nil {
		return err
	}
	if d.DryRun {
		for _, k := range pods {
			d.report.Entries = append(d.report.Entries, Entry{Kind: kindPod, Pod: k.Pod, Result: Result{ID: k.ID, Outcome: OutcomeDryDelete}})
		}
		services, err := SelectedServices(ctx, d.node, d.selectsService)
		d.report.Entries = append(d.report.Entries, services.Entries...)
		return err
	}
	if d.Working != nil {
		d.Working(idsOf(pods))
	}
	results, err := DeletePods(ctx, d.node, pods, d.Options)
	if err != nil {
		return err
	}
	d.report.add(false, results...)
	err = forget()
	d.reportWorkloads(marked, pods)
	deleted, failed := DeleteServices(ctx, d.node, d.selectsService)
	d.report.addServices(false, deleted...)
	return errors.Join(err, failed)
}

// find finds the pods, and adds the named ones that do not exist to missing.
func (d *deletion) find(ctx context.Context) ([]Known, error) {
	selectors, err := d.selectors()
	if err != nil {
		return nil, err
	}
	pods, err := lookup.FindAll(ctx, d.node, selectors, func(sel lookup.Selector) {
		if len(sel.Names) > 0 {
			d.podMissing(sel.Namespace, sel.Names[0])
		}
	})
	if err != nil || d.Every == nil {
		return pods, err
	}
	return slices.DeleteFunc(pods, func(k Known) bool { return !d.Every.Pods(k) }), nil
}

// selectors returns one selector for all pods of --all or -l, or one for each named pod.
func (d *deletion) selectors() (out []lookup.Selector, err error) {
	if d.Every != nil {
		return []lookup.Selector{{Namespace: d.namespace()}}, nil
	}
	if d.Files != nil {
		for _, p := range d.Files.Pods {
			out = append(out, lookup.Selector{Namespace: p.Object.Namespace, Names: []string{p.Object.Name}})
		}
	}
	for id, kind := range d.fileWorkloads() {
		names, err := lookup.Ref{Kind: kind, Name: id.Name}.Replicas(d.node.Layout(), id.Namespace)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			out = append(out, lookup.Selector{Namespace: id.Namespace, Names: []string{name}})
		}
	}
	for _, ref := range d.Named {
		if d.gone[object{d.Namespace, ref}] && !manifest.IsReplicated(ref.Kind) {
			continue // a Job or CronJob
		}
		names, err := d.podsOf(ref)
		if err != nil {
			d.refMissing(ref, err)
			continue
		}
		for _, name := range names {
			out = append(out, lookup.Selector{Namespace: d.Namespace, Names: []string{name}})
		}
	}
	return out, nil
}

// podsOf returns the names of the pods of a named object. A workload that this Delete has marked may have none.
func (d *deletion) podsOf(ref lookup.Ref) ([]string, error) {
	if d.gone[object{d.Namespace, ref}] {
		return ref.Replicas(d.node.Layout(), d.Namespace)
	}
	names, err := ref.ResolveAll(d.node.Layout(), d.Namespace)
	if _, none := errors.AsType[*lookup.NoReplicas](err); none && d.DryRun {
		d.report.Entries = append(d.report.Entries, d.entry(ref.Kind, d.Namespace, ref.Name, OutcomeDryDelete))
		return nil, nil
	}
	return names, err
}

// podMissing reports a pod that was not found, unless it was deleted with its Job or its workload.
func (d *deletion) podMissing(namespace, name string) {
	d.Options.Found = false
	for o := range d.gone {
		if manifest.IsReplicated(o.Kind) && isReplica(o, namespace, name) {
			return // podrun serve has removed it
		}
	}
	ref := lookup.Ref{Name: name}
	if job, of := d.jobOf[namespace+"/"+name]; of {
		if d.gone[object{namespace, job}] {
			return // there was none, or it was deleted with the Job
		}
		ref = job
	}
	d.refMissing(ref, NotFound(name))
}

// isReplica reports whether a pod has the name of a replica of a workload.
func isReplica(workload object, namespace, name string) bool {
	_, replica := manifest.ReplicaIndex(workload.Name, name)
	return replica && namespace == workload.namespace
}

func (d *deletion) refMissing(ref lookup.Ref, err error) {
	d.Options.Found = false
	if d.IgnoreMissing {
		d.report.Missing = append(d.report.Missing, ref)
		return
	}
	d.missing = errors.Join(d.missing, err)
}

// namespace returns the namespace of Every; "" for all namespaces.
func (d *deletion) namespace() string {
	if d.Every != nil && d.Every.AllNamespaces {
		return ""
	}
	return d.Namespace
}

func (d *deletion) entry(kind, namespace, name string, outcome Outcome) Entry {
	return Entry{Kind: kind, Result: Result{ID: identity.Pod{Namespace: namespace, Name: name}, Outcome: outcome}}
}

// idsOf returns the IDs of pods.
func idsOf(pods []Known) (out []identity.Pod) {
	for _, k := range pods {
		out = append(out, k.ID)
	}
	return out
}

// selectsService reports whether Delete also deletes a Service: if one of the files defines it or, with --all or
// -l, if Services are selected.
func (d *deletion) selectsService(s *corev1.Service, _ string) bool {
	if d.Every != nil {
		return d.Every.Services && (d.Every.AllNamespaces || s.Namespace == d.Namespace) && d.Every.Labels(s.Labels)
	}
	return d.Files != nil && d.Files.Services[s.Namespace+"/"+s.Name] != nil
}

// SelectedServices returns the report of a dry run that deletes the selected Services.
func SelectedServices(ctx context.Context, n *node.Node, selected func(*corev1.Service, string) bool) (Report, error) {
	var changes []servicesync.Change
	views, err := servicesync.List(ctx, n, "")
	for _, v := range views {
		if selected(v.Service, v.Origin) {
			changes = append(changes, servicesync.Change{Namespace: v.Service.Namespace, Name: v.Service.Name, Outcome: string(OutcomeDryDelete)})
		}
	}
	return ReportOfServices(changes), err
}
