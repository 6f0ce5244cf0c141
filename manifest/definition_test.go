package manifest

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const deploymentText = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {tier: front}, resourceVersion: "7"}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: a:1}]}
status: {replicas: 2}
`

// TestDefinition checks that a pod has the workload that defines it, without the template, and
// that a checkpoint keeps both.
func TestDefinition(t *testing.T) {
	for text, want := range map[string]string{
		head:           "Pod ",
		deploymentText: `Deployment {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"tier":"front"}},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}}}`,
	} {
		objects, problems := load(t, text, Options{})
		if len(objects.Pods) != 1 {
			t.Fatal(problems)
		}
		p := objects.Pods[0]
		if got := p.Definition.Kind + " " + string(p.Definition.Workload); got != want {
			t.Errorf("definition\n%s, want\n%s", got, want)
		}
		c := Referred(p.Object, objects)
		c.Definition = p.Definition
		data, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		read, err := Unmarshal(data)
		if err != nil || !read.Definition.Equal(p.Definition) {
			t.Errorf("read back: %v, %v", read.Definition, err)
		}
		if again := read.Objects().Pods[0].Definition; !again.Equal(p.Definition) {
			t.Errorf("as an input: %v", again)
		}
	}
}

// TestDefinitionOfOtherReleases checks that an older release ignores the definition, because it is
// a field and not a document. This release must read a checkpoint without one, and one whose kind
// is unknown.
func TestDefinitionOfOtherReleases(t *testing.T) {
	objects, _ := load(t, deploymentText, Options{})
	c := Checkpoint{Pod: objects.Pods[0].Object, Definition: objects.Pods[0].Definition}
	data, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(data, &pod); err != nil || pod.Name != "web" || strings.Contains(string(data), "\n---\n") {
		t.Errorf("%s, %v", data, err)
	}
	for text, want := range map[string]string{
		`{"kind":"Pod"}`: "",
		`{"kind":"Pod","podrun.dev/definition":{"kind":"LaterSet","spec":{"a":1}}}`: "LaterSet",
		`{"kind":"Pod","podrun.dev/definition":{"kind":"Pod"}}`:                     "Pod",
	} {
		read, err := Unmarshal([]byte(text + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if d := read.Definition; want == "" && (d != nil || !d.DefinedBy("Job")) || want != "" && (d == nil || d.Kind != want || d.DefinedBy("Job")) {
			t.Errorf("%s: %v", text, d)
		}
	}
}
