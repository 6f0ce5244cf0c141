package cmd

import (
	"context"
	"errors"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
)

// warnRemaining warns about the Services, Jobs and CronJobs of the selected namespaces after delete --all,
// which deletes only pods. Jobs and CronJobs may start pods again.
func (a *app) warnRemaining(ctx context.Context, r *renderer, e *run.Engine, f *deleteFlags) {
	namespace, command := a.namespaceOrDefault("default"), "podrun delete all --all"
	switch {
	case f.allNamespaces:
		namespace, command = "", command+" -A"
	case a.namespaceGiven:
		command += " -n " + shellWord(namespace)
	}
	jobs, cronJobs, err := run.Jobs(e.Layout(), namespace, e.WarnOnce)
	services, serr := e.Services(ctx, namespace)
	if err := errors.Join(err, serr); err != nil {
		r.warn(problem.List{problem.WarningOf(err)})
	}
	name := func(kind, ns, name string) string {
		if f.allNamespaces {
			name = ns + "/" + name
		}
		return kind + " " + name
	}
	var remaining []string
	for _, c := range cronJobs {
		remaining = append(remaining, name("CronJob", c.Namespace, c.Name))
	}
	for _, j := range jobs {
		remaining = append(remaining, name("Job", j.Object.Namespace, j.Object.Name))
	}
	again := ""
	if len(remaining) > 0 {
		again = "; podrun serve starts pods of these Jobs and CronJobs again"
	}
	for _, s := range services {
		remaining = append(remaining, name(serviceKind, s.Service.Namespace, s.Service.Name))
	}
	if len(remaining) == 0 {
		return
	}
	r.warn(problem.List{{Warning: true, Message: "without a type, delete --all deletes only pods; these objects remain: " + listed(remaining, ", ") + again,
		Hint: "run '" + command + "' to delete them"}})
}
