package rig

import (
	"fmt"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
)

// WithPostStart is the spec of a pod with a postStart hook.
const WithPostStart = "containers: [{name: app, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: [slow]}}}}]"

// CreateForeignPod creates a pod that podrun does not manage, with a running container.
func CreateForeignPod(t testing.TB, rt *critest.Runtime, id identity.Pod, ready bool) {
	t.Helper()
	c := rt.Client()
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: id.Name, Namespace: id.Namespace, Uid: id.UID}, Labels: id.Labels(),
	}
	box, err := c.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	labels := id.Labels()
	labels[identity.LabelContainerName] = "app"
	con, err := c.CreateContainer(t.Context(), box, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Labels: labels, Image: &runtimeapi.ImageSpec{Image: "registry.example/app:1"},
	}, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StartContainer(t.Context(), con); err != nil {
		t.Fatal(err)
	}
	if !ready {
		if err := c.StopPodSandbox(t.Context(), box); err != nil {
			t.Fatal(err)
		}
	}
}

// Web returns a pod with one container.
func Web(policy string) string {
	return PodText("web", policy, "containers: [{name: app, image: registry.example/app:1}]")
}

// WebWithInit returns a pod with one init container and one app container.
func WebWithInit(policy string) string {
	return PodText("web", policy, "initContainers: [{name: setup, image: registry.example/setup:1}]",
		"containers: [{name: app, image: registry.example/app:1}]")
}

// Load parses manifests, each of which may have several documents. An input of ConfigMaps and Secrets alone, which has no pod, is valid for Apply.
func Load(t testing.TB, texts ...string) *manifest.Objects {
	t.Helper()
	objects, err := parse(texts...)
	if err != nil {
		t.Fatalf("the test's manifest: %v", err)
	}
	return objects
}

func parse(texts ...string) (*manifest.Objects, error) {
	objects, problems := manifest.Load([]input.Source{{Name: "test.yaml", Data: []byte(strings.Join(texts, "\n---\n"))}}, manifest.Options{Services: true})
	if errs := problems.Errors(); len(errs) > 0 && !objects.OnlyReferred() {
		return nil, fmt.Errorf("%v", errs)
	}
	return objects, nil
}

// PodText returns a pod with the given name, restart policy and lines of its spec. It indents
// the lines by two spaces.
func PodText(name, policy string, spec ...string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  restartPolicy: " + policy + "\n" +
		"  " + strings.Join(strings.Split(strings.Join(spec, "\n"), "\n"), "\n  ") + "\n"
}

// ServedPod returns a pod with one container, which has the pod's name.
func ServedPod(name string) string {
	return PodText(name, "Always", "terminationGracePeriodSeconds: 5", "containers:", "- {name: "+name+", image: registry.example/app:1}")
}
