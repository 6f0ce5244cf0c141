package cmd

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/servicesync"
	"github.com/podrun/podrun/serve"
)

// isServiceType reports whether a word is a name of the type Service.
func isServiceType(word string) bool {
	t := apikind.Of(word)
	return t != nil && t.Kind == apikind.Service
}

// namedServices returns the names of Services in the arguments of delete: svc NAME..., svc/NAME..., or
// only svc with --all or -l. It returns false if the arguments name other objects.
func namedServices(given []string) (names []string, ok bool) {
	if len(given) == 0 {
		return nil, false
	}
	if isServiceType(given[0]) {
		return given[1:], true
	}
	for _, word := range given {
		kind, name, typed := strings.Cut(word, "/")
		if !typed || !isServiceType(kind) || name == "" {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// deleteServices deletes only Services: delete svc NAME..., or svc with --all or -l. The argument kept contains the other
// types of the command line (ownTypes).
func (a *app) deleteServices(c *cobra.Command, f *deleteFlags, names, kept []string) error {
	several := f.all || f.labels != ""
	if err := checkOutput(a.output, "json", "yaml", "name"); err != nil {
		return err
	}
	if several == (len(names) > 0) || f.hasFiles() {
		return problem.UsageError(errors.New("specify Services by name, or --all, or -l SELECTOR"), "use 'podrun delete svc NAME'; run 'podrun get svc' to list them")
	}
	match, err := grammar.ParseSelector(f.labels)
	if err != nil {
		return grammar.Usage(c, err)
	}
	r := a.renderer()
	r.noteStored(kept)
	engine, closeAll, err := a.rootEngine(c.Context(), r, ownruntime.Acts)
	if err != nil {
		return err
	}
	defer closeAll()
	ctx := c.Context()
	namespace := a.namespaceOrDefault("default")
	selected := func(s *corev1.Service, _ string) bool {
		return (s.Namespace == namespace || several && f.allNamespaces) && (several && match(s.Labels) || slices.Contains(names, s.Name))
	}
	if f.dryRun != dryNone {
		report, err := run.SelectedServices(ctx, engine, selected)
		a.printLines(report.Entries) // nothing for json and yaml, whose output contains only pods
		return err
	}
	reads := serve.ReadsFile(ctx, engine.Layout())
	deleted, err := run.DeleteServices(ctx, engine, func(s *corev1.Service, origin string) bool {
		if !selected(s, origin) {
			return false
		}
		if origin != "" && engine.Supervised() && reads(origin) {
			r.warn(problem.List{{Warning: true, Object: "Service " + s.Namespace + "/" + s.Name, Message: "podrun serve will create it again when it reads " + origin, Hint: "remove it from that file"}})
		}
		return true
	})
	for _, name := range names {
		if !f.ignoreMissing && !slices.ContainsFunc(deleted, func(d servicesync.Change) bool { return d.Name == name }) {
			err = errors.Join(err, &problem.Error{Kind: problem.Failed, Object: "service " + name, Err: problem.ErrNotFound, Hint: "run 'podrun get svc -A' to list all Services"})
		}
	}
	return a.report(run.ReportOfServices(deleted), err)
}
