package pods

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/prepare"
)

// NewDiff returns the command diff.
func NewDiff(a *cli.App) *cobra.Command {
	f := &cli.InputFlags{AllowReferred: true}
	c := &cobra.Command{
		Use:   "diff FILE...",
		Short: "Show how the pods of a manifest differ from those on this host",
		Long: `Show how the pods of a manifest differ from those on this host, as 'kubectl diff'
does. diff compares labels, annotations and spec, with the API's defaults applied,
and the data of the ConfigMaps and Secrets that the pods refer to. It masks the
values of Secrets. If the manifest has only ConfigMaps and Secrets, diff compares them
with the copies in the pods that refer to them.

The exit code is 0 if nothing differs, 1 if something differs, and greater than 1
if podrun cannot compare.`,
		Example: `  podrun diff pod.yaml
  podrun diff -f manifests/ || podrun apply -f manifests/`,
		RunE: func(c *cobra.Command, named []string) error { return runDiff(a, c, f, named) },
	}
	f.Add(c.Flags())
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "do not print the differences; the exit code shows whether there are any")
	return c
}

func runDiff(a *cli.App, c *cobra.Command, f *cli.InputFlags, named []string) error {
	r := &cli.Renderer{W: a.Streams.Err}
	objects, err := f.Load(c.Context(), a, c, named, r.Warn)
	if err != nil {
		return err
	}
	node, closeAll, err := a.OpenNode(c.Context(), r, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	differs := false
	if objects.OnlyReferred() {
		if differs, err = diffReferred(a, node, objects); err != nil {
			return err
		}
	}
	for _, p := range objects.Pods {
		known, err := lookup.Find(c.Context(), node, lookup.Selector{Namespace: p.Object.Namespace, Names: []string{p.Object.Name}})
		if err != nil {
			return err
		}
		var before *manifest.Checkpoint
		if len(known) > 0 {
			if before, err = lookup.StoredCheckpoint(node, known[0].ID); err != nil {
				return err
			}
		}
		text, err := diffWith(a, r, before, p, objects)
		if err != nil {
			return err
		}
		differs = differs || text != ""
		if !a.Quiet {
			fmt.Fprint(a.Streams.Out, text)
		}
	}
	if differs {
		return cli.ExitStatus(exit.Failed)
	}
	return nil
}

// diffReferred prints the diffs between the ConfigMaps and Secrets of the input and the copies of the pods and CronJobs that
// refer to them, each diff once. It reports whether there are any.
func diffReferred(a *cli.App, node *run.Node, objects *manifest.Objects) (differs bool, err error) {
	copies, err := run.ReferredCopies(node, objects)
	if err != nil {
		return false, err
	}
	printed := map[string]bool{}
	for _, pair := range copies {
		text, err := view.DataDiff(pair[0], pair[1])
		if err != nil {
			return false, err
		}
		if text != "" && !printed[text] && !a.Quiet {
			fmt.Fprint(a.Streams.Out, text)
		}
		printed[text] = true
		differs = differs || text != ""
	}
	return differs, nil
}

// diffWith returns the diffs of a pod of the manifest and of the ConfigMaps and Secrets that
// it refers to. Before is nil if the pod does not exist.
func diffWith(a *cli.App, r *cli.Renderer, before *manifest.Checkpoint, p manifest.Pod, objects *manifest.Objects) (string, error) {
	if before == nil {
		text, err := view.PodDiff(nil, p.Object)
		if err != nil {
			return "", err
		}
		more, err := view.DataDiff(manifest.Checkpoint{}, manifest.Referred(p.Object, objects))
		return text + more, err
	}
	text, err := view.PodDiff(before.Pod, p.Object)
	if err != nil {
		return "", err
	}
	objects, kept := before.KeepReferred(p.Object, objects)
	if len(kept) > 0 {
		r.Warn(problem.List{p.Locate(prepare.KeptWarning(kept))})
	}
	more, err := view.DataDiff(*before, manifest.Referred(p.Object, objects))
	return text + more, err
}
