package pods

import (
	"context"
	"errors"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/servicesync"
)

// warnRemaining warns about the Services, Jobs and CronJobs of the selected namespaces after delete --all,
// which deletes only pods. Jobs and CronJobs may start pods again.
func warnRemaining(ctx context.Context, a *cli.App, r *cli.Renderer, node *run.Node, f *deleteFlags) {
	namespace, command := a.NamespaceOrDefault("default"), "podrun delete all --all"
	switch {
	case f.allNamespaces:
		namespace, command = "", command+" -A"
	case a.NamespaceGiven:
		command += " -n " + shellword.Quote(namespace)
	}
	jobs, cronJobs, err := lookup.Jobs(node.Layout(), namespace, node.WarnOnce)
	services, serr := servicesync.List(ctx, node, namespace)
	if err := errors.Join(err, serr); err != nil {
		r.Warn(problem.List{problem.WarningOf(err)})
	}
	name := func(kind, ns, name string) string {
		if f.allNamespaces {
			name = ns + "/" + name
		}
		return kind + " " + name
	}
	var remaining, starting []string
	for _, c := range cronJobs {
		remaining = append(remaining, name("CronJob", c.Namespace, c.Name))
		if c.Spec.Suspend == nil || !*c.Spec.Suspend {
			starting = append(starting, remaining[len(remaining)-1])
		}
	}
	for _, j := range jobs {
		remaining = append(remaining, name("Job", j.Object.Namespace, j.Object.Name))
		if startsPods(j.Object) {
			starting = append(starting, remaining[len(remaining)-1])
		}
	}
	again := ""
	if len(starting) > 0 {
		again = "; podrun serve starts pods again of " + view.Listed(starting, ", ")
	}
	for _, s := range services {
		remaining = append(remaining, name(apikind.Service, s.Service.Namespace, s.Service.Name))
	}
	if len(remaining) == 0 {
		return
	}
	r.Warn(problem.List{{
		Warning: true,
		Message: "without a type, delete --all deletes only pods; these objects remain: " + view.Listed(remaining, ", ") + again,
		Hint:    "run '" + command + "' to delete them",
	}})
}

// startsPods reports whether podrun serve may start another pod of a Job.
func startsPods(j *batchv1.Job) bool {
	switch apikind.JobStatus(j) {
	case string(batchv1.JobComplete), string(batchv1.JobFailed), string(batchv1.JobSuspended), string(batchv1.JobFailureTarget), string(batchv1.JobSuccessCriteriaMet), "Terminating":
		return false
	}
	return true
}
