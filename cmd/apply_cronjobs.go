package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
)

// exceptCronJobs returns a function that calls warn, but omits the notices that podrun runs the
// template of a CronJob once.
func exceptCronJobs(warn func(problem.List)) func(problem.List) {
	return func(l problem.List) {
		warn(slices.DeleteFunc(slices.Clone(l), func(p problem.Problem) bool {
			return p.Reason == manifest.ReasonTemplate && strings.HasPrefix(p.Object, "CronJob ")
		}))
	}
}

// cutCronJobs removes the pods of CronJobs from the input, and returns them.
func cutCronJobs(o *manifest.Objects) (out []manifest.Pod) {
	o.Pods = slices.DeleteFunc(o.Pods, func(p manifest.Pod) bool {
		kind, _ := p.WorkloadRef()
		if kind == "CronJob" {
			out = append(out, p)
		}
		return kind == "CronJob"
	})
	return out
}

// applyCronJobs passes CronJobs to the running supervisor. If none is running, it prints a warning for
// each CronJob or, if the input has no pods, returns an error.
func (a *app) applyCronJobs(ctx context.Context, r *renderer, e *run.Engine, objects *manifest.Objects, pods []manifest.Pod) error {
	var errs []error
	for _, p := range pods {
		object, err := manifest.WorkloadObject(p.Object, p.Definition)
		if err != nil {
			return err
		}
		c := object.(*batchv1.CronJob)
		_, c.Name = p.WorkloadRef()
		problems := manifest.CronJob{Object: c, Template: p}.Problems()
		r.warn(problems.Warnings())
		if why := whyNotApplied(e.Supervised(), problems.Errors()); why.Err != nil {
			why.Object, why.Kind = "CronJob "+c.Namespace+"/"+c.Name, problem.Manifest
			if len(objects.Pods) > 0 {
				r.warn(problem.List{problem.WarningOf(&why)})
			} else {
				errs = append(errs, &why)
			}
			continue
		}
		outcome, err := e.ApplyCronJob(ctx, c, manifest.DependenciesOf(p.Object, objects))
		switch {
		case err != nil:
			errs = append(errs, err)
		case a.output == "name":
			fmt.Fprintln(a.streams.Out, "cronjob.batch/"+c.Name)
		case a.output == "":
			fmt.Fprintf(a.streams.Out, "cronjob.batch/%s %s\n", c.Name, outcome)
		}
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
		return problem.Error{Err: fmt.Errorf("not applied: %s: %s", problems[0].Field, problems[0].Message), Hint: "remove the field"}
	}
	return problem.Error{}
}
