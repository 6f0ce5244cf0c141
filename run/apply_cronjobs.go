package run

import (
	"context"
	"errors"
	"slices"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// CutCronJobs removes the pods of CronJobs from the input, and returns them.
func CutCronJobs(o *manifest.Objects) (out []manifest.Pod) {
	o.Pods = slices.DeleteFunc(o.Pods, func(p manifest.Pod) bool {
		kind, _ := p.WorkloadRef()
		if kind == kindCronJob {
			out = append(out, p)
		}
		return kind == kindCronJob
	})
	return out
}

// applyCronJobs passes CronJobs to the running supervisor. If none is running, it sends a warning for
// each CronJob or, if the input has no pods, returns an error.
func (a *application) applyCronJobs(ctx context.Context) error {
	var errs []error
	for _, p := range a.CronJobs {
		object, err := manifest.WorkloadObject(p.Object, p.Definition)
		if err != nil {
			return err
		}
		c := object.(*batchv1.CronJob)
		_, c.Name = p.WorkloadRef()
		problems := manifest.CronJob{Object: c, Template: p}.Problems()
		a.node.SendWarnings(problems.Warnings())
		if why := whyNotApplied(a.node.Supervised(), problems.Errors()); why.Err != nil {
			why.Object = "CronJob " + c.Namespace + "/" + c.Name
			why.Kind = problem.Manifest
			if len(a.Objects.Pods) > 0 {
				a.node.SendWarnings(problem.List{problem.WarningOf(&why)})
			} else {
				errs = append(errs, &why)
			}
			continue
		}
		outcome, err := ApplyCronJob(ctx, a.node, c, manifest.DependenciesOf(p.Object, a.Objects))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		a.report.Entries = append(a.report.Entries, Entry{
			Kind:   kindCronJob,
			Result: Result{ID: identity.Pod{Namespace: c.Namespace, Name: c.Name}, Outcome: outcome},
		})
	}
	return errors.Join(errs...)
}

// whyNotApplied returns the reason why podrun cannot pass a CronJob to the supervisor. Err is nil
// if podrun can pass the CronJob.
func whyNotApplied(supervised bool, problems problem.List) problem.Error {
	const hint = "copy the file to a manifest directory of 'podrun serve'"
	if !supervised {
		return problem.Error{Err: errors.New("not applied: CronJobs require 'podrun serve', which is not running"),
			Hint: hint + ", or apply it while podrun serve is running; 'podrun run' runs its template once"}
	}
	if len(problems) > 0 {
		return problem.Error{Err: errors.New("not applied: " + problems[0].Field + ": " + problems[0].Message), Hint: "remove the field"}
	}
	return problem.Error{}
}
