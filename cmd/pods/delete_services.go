package pods

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/servicesync"
	"github.com/podrun/podrun/serve"
)

// deleteServices deletes only Services: delete svc NAME..., or svc with --all or -l. The argument kept contains the other
// types of the command line (ownTypes).
func deleteServices(a *cli.App, c *cobra.Command, f *deleteFlags, names, kept []string) error {
	several := f.all || f.labels != ""
	if err := cli.CheckOutput(a.Output, "json", "yaml", "name"); err != nil {
		return err
	}
	if several == (len(names) > 0) || f.HasFiles() {
		return problem.UsageError(errors.New("specify Services by name, or --all, or -l SELECTOR"), "use 'podrun delete svc NAME'; run 'podrun get svc' to list them")
	}
	match, err := grammar.ParseSelector(f.labels)
	if err != nil {
		return grammar.Usage(c, err)
	}
	r := a.Renderer()
	noteStored(r, kept)
	node, closeAll, err := a.OpenNodeAsRoot(c.Context(), r, ownruntime.Acts)
	if err != nil {
		return err
	}
	defer closeAll()
	ctx := c.Context()
	namespace := a.NamespaceOrDefault("default")
	selected := func(s *corev1.Service, _ string) bool {
		return (s.Namespace == namespace || several && f.allNamespaces) && (several && match(s.Labels) || slices.Contains(names, s.Name))
	}
	if f.dryRun != cli.DryNone {
		report, err := run.SelectedServices(ctx, node, selected)
		a.PrintLines(report.Entries) // nothing for json and yaml, whose output contains only pods
		return err
	}
	reads := serve.ReadsFile(ctx, node.Layout())
	deleted, err := run.DeleteServices(ctx, node, func(s *corev1.Service, origin string) bool {
		if !selected(s, origin) {
			return false
		}
		if origin != "" && node.Supervised() && reads(origin) {
			r.Warn(problem.List{{
				Warning: true,
				Object:  "Service " + s.Namespace + "/" + s.Name,
				Message: "podrun serve will create it again when it reads " + origin,
				Hint:    "remove it from that file",
			}})
		}
		return true
	})
	for _, name := range names {
		if !f.ignoreMissing && !slices.ContainsFunc(deleted, func(d servicesync.Change) bool { return d.Name == name }) {
			err = errors.Join(err, &problem.Error{
				Kind:   problem.Failed,
				Object: "service " + name,
				Err:    problem.ErrNotFound,
				Hint:   "run 'podrun get svc -A' to list all Services",
			})
		}
	}
	return a.Report(run.ReportOfServices(deleted), err)
}
