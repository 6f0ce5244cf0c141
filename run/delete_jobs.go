package run

import (
	"context"
	"slices"

	"github.com/podrun/podrun/run/lookup"
)

// deleteJobs deletes the selected Jobs and CronJobs of 'podrun serve', with their pods.
func (d *deletion) deleteJobs(ctx context.Context) error {
	jobs, err := d.selectedJobs()
	for namespace, refs := range jobs {
		if err != nil {
			break
		}
		var deleted []lookup.Ref
		var results []Result
		outcome := OutcomeDeleted
		if d.DryRun {
			outcome = OutcomeDryDelete
			deleted, err = d.existingJobs(namespace, refs)
		} else {
			deleted, results, err = DeleteJobs(ctx, d.node, namespace, refs, d.Options)
		}
		d.report.add(false, results...)
		for _, ref := range deleted {
			d.gone[object{namespace, ref}] = true
			d.report.Entries = append(d.report.Entries, d.entry(ref.Kind, namespace, ref.Name, outcome))
		}
	}
	return err
}

// selectedJobs returns the Jobs and CronJobs that the input selects, by namespace. They may not exist.
func (d *deletion) selectedJobs() (map[string][]lookup.Ref, error) {
	out := map[string][]lookup.Ref{}
	add := func(namespace string, ref lookup.Ref) {
		if ref.Kind == "Job" || ref.Kind == kindCronJob {
			out[namespace] = append(out[namespace], ref)
		}
	}
	if d.Files != nil {
		for _, p := range d.Files.Pods {
			kind, name := p.WorkloadRef()
			ref := lookup.Ref{Kind: kind, Name: name}
			add(p.Object.Namespace, ref)
			if kind == "Job" || kind == kindCronJob {
				d.jobOf[p.Object.Namespace+"/"+p.Object.Name] = ref
			}
		}
	}
	for _, ref := range d.Named {
		add(d.Namespace, ref)
	}
	if d.Every == nil || len(d.Every.Kinds) == 0 {
		return out, nil
	}
	jobs, cronJobs, err := lookup.Jobs(d.node.Layout(), d.namespace(), d.node.WarnOnce)
	for _, j := range jobs {
		if slices.Contains(d.Every.Kinds, "Job") && d.Every.Labels(j.Object.Labels) {
			add(j.Object.Namespace, lookup.Ref{Kind: "Job", Name: j.Object.Name})
		}
	}
	for _, c := range cronJobs {
		if slices.Contains(d.Every.Kinds, kindCronJob) && d.Every.Labels(c.Labels) {
			add(c.Namespace, lookup.Ref{Kind: kindCronJob, Name: c.Name})
		}
	}
	return out, err
}

// existingJobs returns the refs of existing Jobs and CronJobs.
func (d *deletion) existingJobs(namespace string, refs []lookup.Ref) (existing []lookup.Ref, err error) {
	jobs, cronJobs, err := lookup.Jobs(d.node.Layout(), namespace, d.node.WarnOnce)
	for _, j := range jobs {
		existing = append(existing, lookup.Ref{Kind: "Job", Name: j.Object.Name})
	}
	for _, c := range cronJobs {
		existing = append(existing, lookup.Ref{Kind: kindCronJob, Name: c.Name})
	}
	return slices.DeleteFunc(existing, func(ref lookup.Ref) bool { return !slices.Contains(refs, ref) }), err
}
