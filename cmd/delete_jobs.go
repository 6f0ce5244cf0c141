package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/podrun/podrun/run"
)

// deleteJobs deletes the Jobs and CronJobs of 'podrun serve' that the command line or a manifest
// names, or that --all or -l selects. It returns the references to other objects, and the results for
// the deleted pods.
func (a *app) deleteJobs(ctx context.Context, r *renderer, e *run.Engine, f *deleteFlags, kinds kindFilter, named []run.Ref, match func(map[string]string) bool) (rest []run.Ref, results []run.Result, err error) {
	namespaces := map[string][]run.Ref{}
	maps.Copy(namespaces, f.jobs)
	namespace := a.namespaceOrDefault("default")
	own := namespace // the namespace of named
	if len(named) > 0 {
		namespaces[own] = slices.Concat(namespaces[own], named)
	}
	if (f.all || f.labels != "") && len(kinds) > 0 {
		if f.allNamespaces {
			namespace = ""
		}
		jobs, cronJobs, err := run.Jobs(e.Layout(), namespace, e.WarnOnce)
		if err != nil {
			return named, nil, err
		}
		for _, j := range jobs {
			if slices.Contains(kinds, "Job") && match(j.Object.Labels) {
				namespaces[j.Object.Namespace] = append(namespaces[j.Object.Namespace], run.Ref{Kind: "Job", Name: j.Object.Name})
			}
		}
		for _, c := range cronJobs {
			if slices.Contains(kinds, "CronJob") && match(c.Labels) {
				namespaces[c.Namespace] = append(namespaces[c.Namespace], run.Ref{Kind: "CronJob", Name: c.Name})
			}
		}
	}
	f.foundJobs = map[jobRef]bool{}
	for namespace, refs := range namespaces {
		refs = slices.DeleteFunc(slices.Clone(refs), func(ref run.Ref) bool { return ref.Kind != "Job" && ref.Kind != "CronJob" })
		if f.dryRun != dryNone {
			existing, err := a.printDryJobs(e, namespace, refs)
			if err != nil {
				return named, results, err
			}
			for _, ref := range existing {
				f.foundJobs[jobRef{namespace, ref}] = true
			}
			continue
		}
		deleted, of, err := e.DeleteJobs(ctx, namespace, refs, f.DeleteOptions)
		results = append(results, of...)
		for _, ref := range deleted {
			f.foundJobs[jobRef{namespace, ref}] = true
			a.printDeleted(r, resourceOf(ref.Kind)+"/"+ref.Name)
		}
		if err != nil {
			return named, results, err
		}
	}
	rest = slices.DeleteFunc(slices.Clone(named), func(ref run.Ref) bool { return f.foundJobs[jobRef{own, ref}] })
	return rest, results, nil
}

// printDeleted prints a deleted object that the summary of -o json and yaml does not contain, because the
// object is neither a pod nor a Service. It is a result, which --quiet does not omit.
func (a *app) printDeleted(r *renderer, name string) {
	if a.output == "name" {
		fmt.Fprintln(a.streams.Out, name)
		return
	}
	r.print(name + " deleted")
}

// printDryJobs prints and returns the references to existing Jobs and CronJobs of podrun serve.
func (a *app) printDryJobs(e *run.Engine, namespace string, refs []run.Ref) (existing []run.Ref, err error) {
	jobs, cronJobs, err := run.Jobs(e.Layout(), namespace, e.WarnOnce)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		existing = append(existing, run.Ref{Kind: "Job", Name: j.Object.Name})
	}
	for _, c := range cronJobs {
		existing = append(existing, run.Ref{Kind: "CronJob", Name: c.Name})
	}
	existing = slices.DeleteFunc(existing, func(ref run.Ref) bool { return !slices.Contains(refs, ref) })
	for _, ref := range existing {
		text := resourceOf(ref.Kind) + "/" + ref.Name
		switch a.output {
		case "json", "yaml":
			continue // the output of -o json and yaml contains only pods
		case "":
			text += " would be deleted (dry run)"
		}
		fmt.Fprintln(a.streams.Out, text)
	}
	return existing, nil
}
