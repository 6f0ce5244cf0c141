package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
)

// serviceResult describes a Service in the JSON summary.
type serviceResult struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Outcome   string `json:"outcome"` // created, configured, unchanged or deleted
}

func serviceResults(changes []run.ServiceChange) (out []serviceResult) {
	for _, c := range changes {
		out = append(out, serviceResult(c))
	}
	return out
}

// applyServices records the Services of the input before the pods start, so that their containers get
// names and variables.
func (a *app) applyServices(ctx context.Context, r *renderer, e *run.Engine, objects *manifest.Objects) (changes []run.ServiceChange, undo func() error, err error) {
	r.warn(run.ServiceNotes(objects.Services))
	return e.ApplyServices(ctx, objects.Services, run.ServiceOptions{})
}

// applyServicesAlone applies the Services of an input that has CronJobs, but no pods.
func (a *app) applyServicesAlone(ctx context.Context, r *renderer, e *run.Engine, objects *manifest.Objects) error {
	if len(objects.Services) == 0 {
		return nil
	}
	services, undo, err := a.applyServices(ctx, r, e, objects)
	if err != nil {
		return errors.Join(err, undo())
	}
	a.services = services
	return a.report(ctx, nil, a.updateServices(ctx, r, e, objects))
}

// noneLeft reports whether all pods of an apply have failed and were removed.
func noneLeft(e *run.Engine, results []run.Result) bool {
	var ids []identity.Pod
	for _, r := range results {
		if r.Err == nil {
			return false
		}
		ids = append(ids, r.ID)
	}
	return len(results) > 0 && len(e.Remaining(ids)) == 0
}

// updateServices updates the endpoints of Services after pods have started.
func (a *app) updateServices(ctx context.Context, r *renderer, e *run.Engine, objects *manifest.Objects) error {
	if len(objects.Services) == 0 || ctx.Err() != nil {
		return nil // closing the engine updates the Services of other manifests, and those of an interrupted command
	}
	omitted, err := e.SyncServices(ctx)
	r.warn(omitted)
	if err != nil {
		return err
	}
	a.servicesSynced = true
	unforwarded, err := e.UnforwardedPorts(ctx, objects.Services)
	r.warn(unforwarded)
	return err
}

// warnServicesKept prints one warning that no process updates the endpoints of Services from now
// on.
func (a *app) warnServicesKept(r *renderer, changes []run.ServiceChange) {
	if !slices.ContainsFunc(changes, func(c run.ServiceChange) bool { return c.Outcome != "unchanged" }) {
		return
	}
	r.warn(problem.List{{Warning: true, Message: "podrun exits now: Services keep their current endpoints until the next podrun command changes a pod",
		Hint: "use 'podrun serve' to update them when pods restart or are not ready"}})
}

// pruneServices deletes the Services that match the selector and are not in the manifest.
func (f *applyFlags) pruneServices(a *app, c *cobra.Command, e *run.Engine, objects *manifest.Objects, results []run.Result) error {
	match, err := parseSelector(f.labels)
	if err != nil {
		return usage(c, err)
	}
	if f.invalid != nil || slices.ContainsFunc(results, func(r run.Result) bool { return r.Err != nil }) {
		return nil // as for pods
	}
	namespaces := map[string]bool{}
	for _, p := range objects.Pods {
		namespaces[p.Object.Namespace] = true
	}
	for _, s := range objects.Services {
		namespaces[s.Namespace] = true
	}
	if len(namespaces) == 0 {
		namespaces[a.namespaceOrDefault("default")] = true
	}
	deleted, err := e.DeleteServices(c.Context(), func(s *corev1.Service, _ string) bool {
		return namespaces[s.Namespace] && objects.Services[s.Namespace+"/"+s.Name] == nil && match(s.Labels)
	})
	a.services = append(a.services, deleted...)
	return err
}

// isServiceType reports whether a word is a name of the type Service.
func isServiceType(word string) bool {
	t := typeOf(word)
	return t != nil && t.kind == serviceKind
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

// servicesOf returns a function that reports whether a delete of pods also deletes a Service: if one of
// the files defines it or, with 'all', if it is in the selected namespaces.
func (f *deleteFlags) servicesOf(given []string, match func(map[string]string) bool, namespace string) func(*corev1.Service, string) bool {
	all := len(given) == 1 && strings.EqualFold(given[0], "all") && (f.all || f.labels != "")
	return func(s *corev1.Service, _ string) bool {
		if all {
			return (f.allNamespaces || s.Namespace == namespace) && match(s.Labels)
		}
		return f.fileServices[s.Namespace+"/"+s.Name] != nil
	}
}

// printDryServices prints the Services that a delete would delete.
func (a *app) printDryServices(ctx context.Context, e *run.Engine, selected func(*corev1.Service, string) bool) error {
	if a.output == "json" || a.output == "yaml" {
		return nil // the output of -o json and yaml contains only pods
	}
	views, err := e.Services(ctx, "")
	for _, v := range views {
		if selected(v.Service, v.Origin) {
			text := "service/" + v.Service.Name
			if a.output != "name" {
				text += " would be deleted (dry run)"
			}
			fmt.Fprintln(a.streams.Out, text)
		}
	}
	return err
}

// deleteServices deletes only Services: delete svc NAME..., or svc with --all or -l.
func (a *app) deleteServices(c *cobra.Command, f *deleteFlags, names []string) error {
	several := f.all || f.labels != ""
	if err := checkOutput(a.output, "json", "yaml", "name"); err != nil {
		return err
	}
	if several == (len(names) > 0) || f.hasFiles() {
		return usageHint(errors.New("specify Services by name, or --all, or -l SELECTOR"), "use 'podrun delete svc NAME'; run 'podrun get svc' to list them")
	}
	match, err := parseSelector(f.labels)
	if err != nil {
		return usage(c, err)
	}
	r := a.renderer()
	engine, closeAll, err := a.rootEngine(c.Context(), r, run.RuntimeActs)
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
		return a.printDryServices(ctx, engine, selected)
	}
	deleted, err := engine.DeleteServices(ctx, func(s *corev1.Service, origin string) bool {
		if !selected(s, origin) {
			return false
		}
		if origin != "" && engine.Supervised() {
			r.warn(problem.List{{Warning: true, Object: "Service " + s.Namespace + "/" + s.Name, Message: "podrun serve will create it again when it reads " + origin, Hint: "remove it from that file"}})
		}
		return true
	})
	a.services, a.servicesSynced = deleted, err == nil
	for _, name := range names {
		if !f.ignoreMissing && !slices.ContainsFunc(deleted, func(d run.ServiceChange) bool { return d.Name == name }) {
			err = errors.Join(err, &problem.Error{Kind: problem.Failed, Object: "service " + name, Err: problem.ErrNotFound, Hint: "run 'podrun get svc -A' to list all Services"})
		}
	}
	return a.report(c.Context(), nil, err)
}
