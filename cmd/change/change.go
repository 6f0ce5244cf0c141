package change

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
)

// changeFlags are the flags of commands that change the definitions of pods on this host.
type changeFlags struct {
	cli.PickFlags
	configMaps, secrets []string
	dryRun              string
	timeout             time.Duration
	validate            string
	required            bool   // also with --all, it is an error if there are no pods
	none                string // printed if the report has no entries
}

func (f *changeFlags) add(a *cli.App, c *cobra.Command) {
	f.addBasic(a, c)
	c.Flags().StringArrayVar(&f.configMaps, "configmap", nil, "`file` with ConfigMaps that the change adds to the pods; repeatable")
	c.Flags().StringArrayVar(&f.secrets, "secret", nil, "`file` with Secrets that the change adds to the pods; repeatable")
}

// addBasic adds the flags of commands whose changes require no files.
func (f *changeFlags) addBasic(a *cli.App, c *cobra.Command) {
	set := c.Flags()
	f.PickFlags.Add(set)
	set.StringVar(&f.dryRun, "dry-run", cli.DryNone, "change nothing: client prints the result, server also checks whether this host would run it")
	set.Lookup("dry-run").NoOptDefVal = cli.DryClient
	set.DurationVar(&f.timeout, "timeout", cli.DefaultTimeout, "time limit; 0 for no limit")
	set.StringVarP(&a.Output, "output", "o", "", "print the changed pods as json or yaml, or only their names (name)")
	a.AddQuiet(c)
	f.validate, f.none = string(manifest.Strict), "no pods found"
}

// check parses the names on the command line, and checks the flags that addBasic adds.
func (f *changeFlags) check(a *cli.App, c *cobra.Command, given []string) error {
	var err error
	switch f.dryRun {
	case cli.DryNone, cli.DryClient, cli.DryServer:
	case "false":
		f.dryRun = cli.DryNone
	case "true":
		f.dryRun = cli.DryClient
	default:
		err = problem.UsageError(fmt.Errorf("--dry-run=%s is not one of none, client, server", f.dryRun), "--dry-run=client prints the result, --dry-run=server also checks whether this host would run it")
	}
	if err == nil {
		err = cli.CheckOutput(a.Output, "json", "yaml", "name")
	}
	return errors.Join(err, f.PickFlags.Check(c, given))
}

// runChange changes the selected pods, and prints the results. The text "unchanged" describes a pod that does not change; ""
// prints nothing.
func runChange(a *cli.App, c *cobra.Command, f *changeFlags, given []string, unchanged string, in run.ChangeInput) error {
	if err := f.check(a, c, given); err != nil {
		return err
	}
	return withTargets(a, c, f, f.Everything() && !f.required, func(ctx context.Context, r *cli.Renderer, node *run.Node, t run.Targets) error {
		in.Targets = t
		in.Files = append(append([]string(nil), f.configMaps...), f.secrets...)
		in.Validate = manifest.Validate(f.validate)
		in.AllowKubelet = a.AllowKubelet
		in.DryRun = f.dryRun != cli.DryNone
		in.Admit = f.dryRun == cli.DryServer
		report, err := run.Change(ctx, node, in)
		if err != nil {
			return err
		}
		if len(report.Entries) == 0 {
			r.Note(f.none)
		}
		return errors.Join(report.Err(), printChanged(a, f, report.Entries, unchanged))
	})
}

// withTargets calls do with the selection and a node. Call check first.
func withTargets(a *cli.App, c *cobra.Command, f *changeFlags, mayBeEmpty bool, do func(context.Context, *cli.Renderer, *run.Node, run.Targets) error) error {
	use := ownruntime.Use(ownruntime.Acts)
	if f.dryRun != cli.DryNone {
		use = ownruntime.Reads
	}
	a.SurviveBrokenPipes()
	r := a.MessageRenderer()
	node, closeAll, err := a.OpenNodeAsRoot(c.Context(), r, use) // even a dry run requires root, because the definitions are private
	if err != nil {
		return err
	}
	defer closeAll()
	targets, err := f.Targets(c.Context(), a, node, mayBeEmpty)
	if err != nil {
		return err
	}
	targets.Working = a.Working(r, node, run.UndoTimeout)
	return do(c.Context(), r, node, targets)
}

// reads calls do with the selected pods. Call check first.
func (f *changeFlags) reads(a *cli.App, c *cobra.Command, mayBeEmpty bool, do func(*run.Node, []run.Target) error) error {
	f.dryRun = cli.DryClient // nothing changes
	return withTargets(a, c, f, mayBeEmpty, func(ctx context.Context, _ *cli.Renderer, node *run.Node, t run.Targets) error {
		pods, err := t.Find(ctx, node)
		if err != nil {
			return err
		}
		return do(node, pods)
	})
}

// printChanged prints the results of a change: one line for each pod or workload that the user selected, or the
// definitions. It omits pods whose change has failed.
func printChanged(a *cli.App, f *changeFlags, entries []run.Entry, unchanged string) error {
	suffix := map[string]string{cli.DryClient: " (dry run)", cli.DryServer: " (server dry run)"}[f.dryRun]
	texts := map[lookup.Ref]string{}
	var definitions []corev1.Pod
	for _, e := range entries {
		if e.Err != nil {
			continue
		}
		for _, note := range e.Notes {
			if a.Output == "" {
				fmt.Fprintln(a.Streams.Out, note)
			}
		}
		if text, known := texts[e.Ref]; !known || text == "" || e.Done != "" {
			texts[e.Ref] = e.Done
		}
		if e.Pod != nil {
			definitions = append(definitions, *e.Pod)
		}
	}
	if a.Output == "json" || a.Output == "yaml" {
		return printDefinitions(a, definitions)
	}
	for _, e := range entries {
		text, due := texts[e.Ref]
		delete(texts, e.Ref) // the other pods are replicas of the same workload
		if text == "" {
			text = unchanged
		}
		switch {
		case !due:
		case a.Output == "name":
			fmt.Fprintln(a.Streams.Out, shownRef(e.Ref))
		case text != "":
			fmt.Fprintf(a.Streams.Out, "%s %s%s\n", shownRef(e.Ref), text, suffix)
		}
	}
	return nil
}

// printDefinitions prints one pod, or a list of several, in the format of -o.
func printDefinitions(a *cli.App, pods []corev1.Pod) error {
	for i := range pods {
		pods[i].APIVersion, pods[i].Kind = "v1", "Pod"
	}
	switch len(pods) {
	case 0:
		return nil
	case 1:
		return view.PrintData(a.Raw.Out, a.Output, pods[0])
	}
	return view.PrintData(a.Raw.Out, a.Output, cli.ListOf(pods))
}

// shownRef returns the name of an object as kubectl prints it: pod/web or deployment.apps/web.
func shownRef(ref lookup.Ref) string { return cli.ResourceOf(ref.Kind) + "/" + ref.Name }

// listPods prints lines about the definitions of the selected pods.
func listPods(a *cli.App, c *cobra.Command, f *changeFlags, given []string, lines func(*corev1.Pod) ([]string, error)) error {
	if err := f.check(a, c, given); err != nil {
		return err
	}
	return f.reads(a, c, f.Everything(), func(_ *run.Node, pods []run.Target) (err error) {
		for _, k := range pods {
			failed := errors.New("its checkpoint cannot be read")
			var text []string
			if k.Pod != nil {
				text, failed = lines(manifest.Editable(k.Pod))
			}
			err = errors.Join(err, problem.In("pod/"+k.ID.Name, failed))
			for _, line := range text {
				fmt.Fprintln(a.Streams.Out, line)
			}
		}
		return err
	})
}
