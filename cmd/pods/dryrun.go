package pods

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/servicesync"
)

// addDryRun adds --dry-run. The default value is server, because it checks more.
func addDryRun(set *pflag.FlagSet, value *string) {
	set.StringVar(value, "dry-run", cli.DryNone, "change nothing: client checks the manifest, server also checks this host and prints the plan (like 'podrun plan')")
	set.Lookup("dry-run").NoOptDefVal = cli.DryServer
}

// dryRun performs the dry run that --dry-run requests. Done is false if no dry run was
// requested.
func dryRun(a *cli.App, c *cobra.Command, value string, f *cli.InputFlags, named []string) (done bool, err error) {
	switch value {
	case cli.DryNone, "false":
		return false, nil
	case cli.DryServer, "true":
		return true, runPlan(a, c, &planFlags{InputFlags: *f}, named)
	case cli.DryClient:
		return true, checkManifest(a, c, f, named)
	}
	return true, problem.UsageError(fmt.Errorf("--dry-run=%s is not one of none, client, server", value), "--dry-run=client checks the manifest, --dry-run=server also checks whether this host would admit the pods")
}

// checkManifest reads and validates manifests, and prints the pods in them.
func checkManifest(a *cli.App, c *cobra.Command, f *cli.InputFlags, named []string) error {
	if err := cli.CheckOutput(a.Output, "json", "yaml", "name"); err != nil {
		return err
	}
	r := a.TextRenderer()
	f.Services = true
	objects, err := f.Load(c.Context(), a, c, named, r.Warn)
	if err != nil {
		return err
	}
	r.Warn(servicesync.Notes(objects.Services))
	settings, _, err := a.Settings.Settings()
	if err != nil {
		return err
	}
	if err := problem.Refuse(problem.Manifest, newEphemeral(objects, settings.Layout())); err != nil {
		return err
	}
	if a.Output == "json" || a.Output == "yaml" {
		if resources := objects.Resources(); len(resources) > len(objects.Pods) {
			return view.PrintData(a.Raw.Out, a.Output, cli.ResourceList{APIVersion: "v1", Kind: "List", Items: resources})
		}
	}
	const outcome = "is valid (client dry run: this host was not checked)"
	var names []string
	if objects.OnlyReferred() {
		names = namesOf(names, "ConfigMap", objects.ConfigMaps)
		names = namesOf(names, "Secret", objects.Secrets)
	}
	for _, text := range namesOf(names, apikind.Service, objects.Services) {
		if a.Output != "name" {
			text += " " + outcome
		}
		fmt.Fprintln(a.Streams.Out, text)
	}
	return printDryPods(a, podsOf(objects), outcome)
}

// namesOf appends the names of objects of one kind (service/web).
func namesOf[T metav1.Object](to []string, kind string, objects map[string]T) []string {
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		to = append(to, cli.ResourceOf(kind)+"/"+objects[key].GetName())
	}
	return to
}

// newEphemeral rejects ephemeral containers of pods that are not on this host, like apply: an
// ephemeral container can only be added to an existing pod.
func newEphemeral(objects *manifest.Objects, layout identity.Layout) problem.List {
	var out problem.List
	for _, p := range objects.Pods {
		if len(p.Object.Spec.EphemeralContainers) > 0 && !lookup.IsStored(layout, p.Object.Namespace, p.Object.Name) {
			out = append(out, p.Locate(manifest.EphemeralProblem(manifest.EphemeralOnCreate)))
		}
	}
	return out
}

// podsOf returns the pods of a manifest as an API server would show them.
func podsOf(objects *manifest.Objects) []corev1.Pod {
	var out []corev1.Pod
	for _, p := range objects.Pods {
		pod := *p.Object
		pod.APIVersion, pod.Kind = "v1", "Pod"
		out = append(out, pod)
	}
	return out
}

// printDryPods prints the pods of a dry run.
func printDryPods(a *cli.App, pods []corev1.Pod, outcome string) error {
	switch {
	case (a.Output == "json" || a.Output == "yaml") && len(pods) == 1:
		return view.PrintData(a.Raw.Out, a.Output, pods[0])
	case a.Output == "json" || a.Output == "yaml":
		return view.PrintData(a.Raw.Out, a.Output, cli.ListOf(pods))
	}
	for i := range pods {
		text := "pod/" + pods[i].Name
		if a.Output != "name" {
			text += " " + outcome
		}
		fmt.Fprintln(a.Streams.Out, text)
	}
	return nil
}
