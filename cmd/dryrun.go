package cmd

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/servicesync"
)

// The values of --dry-run, as in kubectl.
const (
	dryNone   = "none"
	dryClient = "client" // the manifest alone
	dryServer = "server" // the manifest and this host: podrun plan
)

// addDryRun adds --dry-run. The default value is server, because it checks more.
func addDryRun(set *pflag.FlagSet, value *string) {
	set.StringVar(value, "dry-run", dryNone, "change nothing: client checks the manifest, server also checks this host and prints the plan (like 'podrun plan')")
	set.Lookup("dry-run").NoOptDefVal = dryServer
}

// dryRun performs the dry run that --dry-run requests. Done is false if no dry run was
// requested.
func (a *app) dryRun(c *cobra.Command, value string, f *inputFlags, named []string) (done bool, err error) {
	switch value {
	case dryNone, "false":
		return false, nil
	case dryServer, "true":
		return true, a.runPlan(c, &planFlags{inputFlags: *f}, named)
	case dryClient:
		return true, a.checkManifest(c, f, named)
	}
	return true, problem.UsageError(fmt.Errorf("--dry-run=%s is not one of none, client, server", value), "--dry-run=client checks the manifest, --dry-run=server also checks whether this host would admit the pods")
}

// checkManifest reads and validates manifests, and prints the pods in them.
func (a *app) checkManifest(c *cobra.Command, f *inputFlags, named []string) error {
	if err := checkOutput(a.output, "json", "yaml", "name"); err != nil {
		return err
	}
	r := a.textRenderer()
	f.services = true
	objects, err := f.load(c.Context(), a, c, named, r.warn)
	if err != nil {
		return err
	}
	r.warn(servicesync.Notes(objects.Services))
	settings, _, err := a.settings.Settings()
	if err != nil {
		return err
	}
	if err := problem.Refuse(problem.Manifest, newEphemeral(objects, settings.Layout())); err != nil {
		return err
	}
	if a.output == "json" || a.output == "yaml" {
		if resources := objects.Resources(); len(resources) > len(objects.Pods) {
			return view.PrintData(a.raw.Out, a.output, resourceList{APIVersion: "v1", Kind: "List", Items: resources})
		}
	}
	const outcome = "is valid (client dry run: this host was not checked)"
	var names []string
	if objects.OnlyReferred() {
		names = namesOf(names, "ConfigMap", objects.ConfigMaps)
		names = namesOf(names, "Secret", objects.Secrets)
	}
	for _, text := range namesOf(names, apikind.Service, objects.Services) {
		if a.output != "name" {
			text += " " + outcome
		}
		fmt.Fprintln(a.streams.Out, text)
	}
	return a.printDryPods(podsOf(objects), outcome)
}

// namesOf appends the names of objects of one kind (service/web).
func namesOf[T metav1.Object](to []string, kind string, objects map[string]T) []string {
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		to = append(to, resourceOf(kind)+"/"+objects[key].GetName())
	}
	return to
}

// resourceList is a List of objects of several kinds.
type resourceList struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   struct{} `json:"metadata"`
	Items      []any    `json:"items"`
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
func (a *app) printDryPods(pods []corev1.Pod, outcome string) error {
	switch {
	case (a.output == "json" || a.output == "yaml") && len(pods) == 1:
		return view.PrintData(a.raw.Out, a.output, pods[0])
	case a.output == "json" || a.output == "yaml":
		return view.PrintData(a.raw.Out, a.output, listOf(pods))
	}
	for i := range pods {
		text := "pod/" + pods[i].Name
		if a.output != "name" {
			text += " " + outcome
		}
		fmt.Fprintln(a.streams.Out, text)
	}
	return nil
}
