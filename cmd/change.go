package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/generate"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
)

// changeFlags are the flags of commands that change the definitions of pods on this host. Such a
// command reads a definition, changes it, and applies the result as 'podrun apply' does.
type changeFlags struct {
	pickFlags
	configMaps, secrets []string
	dryRun              string
	timeout             time.Duration
	validate            string
	// content is the content of the files of configMaps and secrets, once it has been read. A pipe can be
	// read only once.
	content []input.Source
}

func (f *changeFlags) add(a *app, c *cobra.Command) {
	set := c.Flags()
	f.pickFlags.add(set)
	f.addOutput(a, c)
	set.StringArrayVar(&f.configMaps, "configmap", nil, "`file` with ConfigMaps that the change adds to the pods; repeatable")
	set.StringArrayVar(&f.secrets, "secret", nil, "`file` with Secrets that the change adds to the pods; repeatable")
}

// addOutput adds the flags for output and dry runs.
func (f *changeFlags) addOutput(a *app, c *cobra.Command) {
	set := c.Flags()
	set.StringVar(&f.dryRun, "dry-run", dryNone, "change nothing: client prints the result, server also checks whether this host would run it")
	set.Lookup("dry-run").NoOptDefVal = dryClient
	set.DurationVar(&f.timeout, "timeout", defaultTimeout, "time limit; 0 for no limit")
	set.StringVarP(&a.output, "output", "o", "", "print the changed pods as json or yaml, or only their names (name)")
	a.addQuiet(c)
	f.validate = string(manifest.Strict)
}

// definitionChange is a change of the definitions of pods.
type definitionChange struct {
	// change returns the changed definition as YAML or JSON. Extra are objects that the pod may
	// refer to, in addition to those of its checkpoint; nil for none.
	change func(pod *corev1.Pod, c *manifest.Checkpoint) (changed []byte, extra *manifest.Objects, err error)
	// done describes the change of a pod in the output, such as "image updated".
	done func(id identity.Pod) string
	// none describes that a pod is unchanged; "" prints nothing.
	none string
	// labelsOnly is true if only labels and annotations change: the pod's state stays as it is.
	labelsOnly bool
	// force recreates the pod even if the change is possible in place.
	force bool
}

// always returns a description that is the same for all pods.
func always(text string) func(identity.Pod) string {
	return func(identity.Pod) string { return text }
}

// redefined returns the result of a change as a manifest.
func redefined(pod *corev1.Pod, err error) ([]byte, *manifest.Objects, error) {
	if err != nil {
		return nil, nil, err
	}
	data, err := generate.Manifest(pod)
	return data, nil, err
}

// runChange changes the selected pods.
func (a *app) runChange(c *cobra.Command, f *changeFlags, given []string, d definitionChange) error {
	if err := errors.Join(f.checkFlags(a), f.check(c, given)); err != nil {
		return err
	}
	return a.withPods(c, f, f.all && f.selector == "", func(ctx context.Context, r *renderer, e *run.Node, pods []run.Known) error {
		if len(pods) == 0 {
			r.note("no pods found")
			return nil
		}
		return a.changePods(ctx, f, r, e, pods, d)
	})
}

// checkFlags checks the flags that addOutput adds.
func (f *changeFlags) checkFlags(a *app) error {
	switch f.dryRun {
	case dryNone, dryClient, dryServer:
	case "false":
		f.dryRun = dryNone
	case "true":
		f.dryRun = dryClient
	default:
		return problem.UsageError(fmt.Errorf("--dry-run=%s is not one of none, client, server", f.dryRun), "--dry-run=client prints the result, --dry-run=server also checks whether this host would run it")
	}
	return checkOutput(a.output, "json", "yaml", "name")
}

// withPods calls do with the selected pods and an engine, within the time limit. It is an error if no pod is
// selected, unless noneIsFine is set. Call checkFlags and check first.
func (a *app) withPods(c *cobra.Command, f *changeFlags, noneIsFine bool, do func(context.Context, *renderer, *run.Node, []run.Known) error) error {
	use := ownruntime.Use(ownruntime.Acts)
	if f.dryRun != dryNone {
		use = ownruntime.Reads
	}
	a.surviveBrokenPipes()
	r := a.messageRenderer()
	engine, closeAll, err := a.rootEngine(c.Context(), r, use) // even a dry run requires root, because the definitions are private
	if err != nil {
		return err
	}
	defer closeAll()
	ctx := c.Context()
	pods, err := f.pods(ctx, a, engine, noneIsFine)
	if err != nil {
		return err
	}
	return do(ctx, r, engine, pods)
}

// changePods applies a change to the selected pods, and prints the results. It checks the changes of all pods before
// the first change takes effect.
func (a *app) changePods(ctx context.Context, f *changeFlags, r *renderer, e *run.Node, pods []run.Known, d definitionChange) error {
	sources, err := f.sources(ctx)
	if err != nil {
		return err
	}
	settings, _, err := a.settings.Settings()
	if err != nil {
		return err
	}
	r.warn(manifest.SetGates(settings.FeatureGates))
	redefine := func(id identity.Pod, c *manifest.Checkpoint) (*manifest.Objects, error) {
		objects, _, err := f.redefine(d, c, sources)
		return objects, inPod(id, err)
	}
	all := &manifest.Objects{}
	var changed []run.Known
	var failed error
	results := map[string]*corev1.Pod{}
	for _, k := range pods {
		objects, warnings, err := a.preview(e, k, f, d, sources)
		failed = errors.Join(failed, inPod(k.ID, err))
		r.warn(warnings)
		if objects == nil {
			results[k.ID.String()] = nil
			continue
		}
		results[k.ID.String()] = objects.Pods[0].Object
		changed = append(changed, k)
		all.Add(objects)
	}
	if failed != nil {
		return failed
	}
	suffix := ""
	switch {
	case f.dryRun == dryClient:
		suffix = " (dry run)"
	case f.dryRun == dryServer:
		suffix = " (server dry run)"
		if err := a.checkOnHost(ctx, r, e, all, d); err != nil {
			return err
		}
	case len(changed) > 0:
		r.severalPods = len(changed) > 1
		a.trackWork(r, e, idsOf(changed), run.UndoTimeout)
		applied, err := run.Change(ctx, e, changed, redefine, run.ApplyOptions{AllowKubelet: a.allowKubelet, Force: d.force, RestartedAt: !d.labelsOnly, DefineOnly: d.labelsOnly})
		if err != nil {
			return err
		}
		for _, result := range applied {
			failed = errors.Join(failed, result.Err)
			if result.Err != nil {
				delete(results, result.ID.String())
			}
		}
	}
	return errors.Join(failed, a.printChanged(f, pods, results, d, suffix))
}

// preview computes the change of a pod without a lock. It returns nil if nothing changes.
func (a *app) preview(e *run.Node, k run.Known, f *changeFlags, d definitionChange, sources []input.Source) (*manifest.Objects, problem.List, error) {
	c, err := lookup.StoredCheckpoint(e, k.ID)
	if err == nil && c == nil {
		err = errors.New("its checkpoint was not found")
	}
	if err != nil {
		return nil, nil, err
	}
	return f.redefine(d, c, sources)
}

// inPod adds the name of the pod to an error that does not name an object.
func inPod(id identity.Pod, err error) error {
	if e, ok := errors.AsType[*problem.Error](err); err == nil || ok && (e.Object != "" || len(e.Problems) > 0) {
		return err
	}
	kind := problem.Failed
	hint := ""
	if e, ok := errors.AsType[*problem.Error](err); ok {
		kind, hint, err = e.Kind, e.Hint, e.Err
	}
	return &problem.Error{Kind: kind, Object: "pod/" + id.Name, Err: err, Hint: hint}
}

// sources returns the files of --configmap and --secret. It reads them only once.
func (f *changeFlags) sources(ctx context.Context) (_ []input.Source, err error) {
	files := append(append([]string(nil), f.configMaps...), f.secrets...)
	if len(files) > 0 && f.content == nil {
		f.content, err = input.Read(ctx, files, input.ReadOptions{})
	}
	return f.content, err
}

// redefine returns the objects of a changed pod, or nil if nothing changes, and new warnings.
func (f *changeFlags) redefine(d definitionChange, c *manifest.Checkpoint, sources []input.Source) (*manifest.Objects, problem.List, error) {
	before := manifest.Editable(c.Pod)
	changed, extra, err := d.change(before, c)
	if err != nil || changed == nil {
		return nil, nil, err
	}
	name := "pod/" + c.Pod.Name
	load := func(data []byte, more []input.Source) (*manifest.Objects, problem.List) {
		return manifest.Load(append([]input.Source{{Name: name, Data: data}}, more...),
			manifest.Options{Namespace: c.Pod.Namespace, Validate: manifest.Validate(f.validate)})
	}
	objects, problems := load(changed, sources)
	if err := problem.Refuse(problem.Manifest, problems); err != nil {
		return nil, nil, err
	}
	if len(objects.Pods) != 1 || objects.Pods[0].Object.Name != c.Pod.Name || objects.Pods[0].Object.Namespace != c.Pod.Namespace {
		return nil, nil, problem.UsageError(errors.New("the name, the namespace and the kind of a pod cannot be changed"), "apply a manifest with the new name, then delete this pod")
	}
	pod := &objects.Pods[0]
	if !d.force && len(sources) == 0 && len(manifest.Changes(c.Pod, manifest.KeepEphemeral(c.Pod, pod.Object))) == 0 {
		return nil, problems.Warnings(), nil
	}
	pod.Object.UID = c.Pod.UID
	pod.Definition, pod.WroteDNSPolicy, pod.SecretsInMemory = c.Definition, false, c.InMemory
	for _, more := range []*manifest.Objects{c.Objects(), extra} {
		if more != nil {
			others := *more
			others.Pods = nil
			objects.Add(&others)
		}
	}
	return objects, newWarnings(problems, func() problem.List {
		data, err := generate.Manifest(before)
		if err != nil {
			return nil
		}
		_, known := load(data, nil)
		return known
	}), nil
}

// newWarnings returns the warnings that a definition did not cause before its change.
func newWarnings(now problem.List, before func() problem.List) problem.List {
	if len(now.Warnings()) == 0 {
		return nil
	}
	known := map[string]bool{}
	for _, p := range before().Warnings() {
		known[p.Object+p.Field+p.Message] = true
	}
	var out problem.List
	for _, p := range now.Warnings() {
		if !known[p.Object+p.Field+p.Message] {
			out = append(out, p)
		}
	}
	return out
}

// checkOnHost performs the part of a dry run that checks the objects against this host.
func (a *app) checkOnHost(ctx context.Context, r *renderer, e *run.Node, objects *manifest.Objects, d definitionChange) error {
	if len(objects.Pods) == 0 {
		return nil
	}
	_, problems, err := e.Prepare(ctx, objects, run.PrepareOptions{AllowKubelet: a.allowKubelet, Force: d.force, RestartedAt: !d.labelsOnly, KeepEnded: d.labelsOnly})
	if err != nil {
		return err
	}
	r.warn(problems.Warnings())
	return problem.Refuse(problem.Refused, problems)
}

// printChanged prints the results. A nil result is an unchanged pod; pods whose change failed have no
// result.
func (a *app) printChanged(f *changeFlags, pods []run.Known, results map[string]*corev1.Pod, d definitionChange, suffix string) error {
	var shown []corev1.Pod
	// printed has the objects for which a line was printed; changed has those with a changed pod
	printed, changed := map[string]bool{}, map[string]bool{}
	for _, k := range pods {
		changed[f.shown(k.ID)] = changed[f.shown(k.ID)] || results[k.ID.String()] != nil
	}
	for _, k := range pods {
		pod, ok := results[k.ID.String()]
		text, name := d.none, f.shown(k.ID)
		switch {
		case !ok:
			continue
		case pod != nil:
			text = d.done(k.ID)
		case k.Pod != nil:
			pod = manifest.Editable(k.Pod)
		}
		lines := a.output == "" || a.output == "name"
		if lines && (printed[name] || changed[name] && results[k.ID.String()] == nil) {
			continue // another replica of the same workload
		}
		printed[name] = true
		switch {
		case a.output == "name":
			fmt.Fprintln(a.streams.Out, name)
		case a.output != "" && pod != nil:
			out := *pod
			out.APIVersion, out.Kind = "v1", "Pod"
			shown = append(shown, out)
		case a.output == "" && text != "":
			fmt.Fprintf(a.streams.Out, "%s %s%s\n", name, text, suffix)
		}
	}
	return a.printDefinitions(shown)
}

// printDefinitions prints one pod, or a list of several, in the format of -o.
func (a *app) printDefinitions(pods []corev1.Pod) error {
	switch {
	case len(pods) == 1:
		return view.PrintData(a.raw.Out, a.output, pods[0])
	case len(pods) > 1:
		return view.PrintData(a.raw.Out, a.output, listOf(pods))
	}
	return nil
}

// shown returns the name of the object by which the user selected a pod, as kubectl prints it:
// pod/web or deployment.apps/web.
func (f *pickFlags) shown(id identity.Pod) string {
	ref := f.refOf(id)
	return resourceOf(ref.Kind) + "/" + ref.Name
}

// listPods prints lines about the definitions of the selected pods.
func (a *app) listPods(c *cobra.Command, f *changeFlags, given []string, lines func(*corev1.Pod) ([]string, error)) error {
	if err := errors.Join(f.checkFlags(a), f.check(c, given)); err != nil {
		return err
	}
	f.dryRun = dryClient
	return a.withPods(c, f, f.all && f.selector == "", func(_ context.Context, _ *renderer, _ *run.Node, pods []run.Known) (err error) {
		for _, k := range pods {
			if k.Pod == nil {
				err = errors.Join(err, inPod(k.ID, errors.New("its checkpoint cannot be read")))
				continue
			}
			text, failed := lines(manifest.Editable(k.Pod))
			err = errors.Join(err, inPod(k.ID, failed))
			for _, line := range text {
				fmt.Fprintln(a.streams.Out, line)
			}
		}
		return err
	})
}
