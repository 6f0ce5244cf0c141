package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWorkloads: each kind with a pod template gives one pod, named after it,
// with the template's labels, and says so.
func TestWorkloads(t *testing.T) {
	for kind, tc := range map[string]struct{ apiVersion, open, end, restart string }{
		"Deployment":            {"apps/v1", "{template: ", "}", ""},
		"DaemonSet":             {"apps/v1", "{template: ", "}", "Always"},
		"StatefulSet":           {"apps/v1", "{template: ", "}", ""},
		"ReplicaSet":            {"apps/v1", "{template: ", "}", ""},
		"ReplicationController": {"v1", "{template: ", "}", ""},
		"Job":                   {"batch/v1", "{template: ", "}", "Never"},
		"CronJob":               {"batch/v1", "{jobTemplate: {spec: {template: ", "}}}", "OnFailure"},
	} {
		t.Run(kind, func(t *testing.T) {
			restart := ""
			if tc.restart != "" {
				restart = ", restartPolicy: " + tc.restart
			}
			text := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: web, namespace: ns, uid: 0b}\nspec: %s{metadata: {name: x, labels: {l: l}, annotations: {a: a}}, spec: {containers: [{name: c, image: i}]%s}}%s\n",
				tc.apiVersion, kind, tc.open, restart, tc.end)
			objects, warnings := load(t, text, Options{})
			pod := objects.Pods[0]
			got := []string{pod.Object.Namespace, pod.Object.Name, string(pod.Object.UID), pod.Object.Labels["l"], pod.Object.Annotations["a"], pod.From, pod.Object.Kind}
			if diff := cmp.Diff([]string{"ns", "web", "", "l", "a", kind + " web", "Pod"}, got); diff != "" {
				t.Error(diff)
			}
			want := []string{fmt.Sprintf("f:1: %s ns/web: podrun runs one pod of the template of this %s, and does nothing else that it asks for", kind, kind)}
			if diff := cmp.Diff(want, warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPodTemplate(t *testing.T) {
	objects, _ := load(t, "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: web}\ntemplate: {spec: {containers: [{name: c, image: i}], restartPolicy: Never}}\n", Options{})
	if pod := objects.Pods[0]; pod.Object.Name != "web" || pod.From != "PodTemplate web" {
		t.Errorf("pod %s from %s", pod.Object.Name, pod.From)
	}
}

// TestWorkloadProblems: paths and lines are those of the object in the file,
// and what the API refuses in the template is refused.
func TestWorkloadProblems(t *testing.T) {
	job := "apiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: web\nspec:\n  jobTemplate:\n    spec:\n      template:\n        metadata: {labels: {a: 'b c'}}\n        spec:\n          containers:\n          - name: c\n            foo: 1\n"
	_, problems := Load([]Source{{"f", []byte(job)}}, Options{})
	var got []string
	for _, p := range problems.Errors() {
		text, _, _ := strings.Cut(p.String(), ": a valid label")
		got = append(got, text)
	}
	want := []string{
		"f:9: CronJob default/web: spec.jobTemplate.spec.template.metadata.labels: Invalid value: \"b c\"",
		"f:10: CronJob default/web: spec.jobTemplate.spec.template.spec.restartPolicy: the pods of a CronJob have restartPolicy OnFailure or Never, not Always",
		"f:12: CronJob default/web: spec.jobTemplate.spec.template.spec.containers[0].image: Required value",
		"f:13: CronJob default/web: spec.jobTemplate.spec.template.spec.containers[0].foo: unknown field \"foo\"",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, problems = Load([]Source{{"f", []byte("apiVersion: v1\nkind: ReplicationController\nmetadata: {name: web}\nspec: {}\n")}}, Options{})
	if got, want := problems.String(), "f:4: ReplicationController default/web: spec.template: a pod template is required"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestClaimTemplates: a StatefulSet's pod gets the claims of the set's first
// pod, which are among the objects.
func TestClaimTemplates(t *testing.T) {
	text := `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - {name: c, image: i, volumeMounts: [{name: data, mountPath: /data}]}
      volumes: [{name: data, emptyDir: {}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`
	objects, _ := load(t, text, Options{Namespace: "n"})
	volumes := objects.Pods[0].Object.Spec.Volumes
	if len(volumes) != 1 || volumes[0].PersistentVolumeClaim == nil || volumes[0].PersistentVolumeClaim.ClaimName != "data-web-0" {
		t.Errorf("volumes: %v", volumes)
	}
	if objects.Claims["n/data-web-0"] == nil {
		t.Errorf("claims: %v", objects.Claims)
	}
	_, problems := Load([]Source{{"f", []byte(strings.Replace(text, "storage: 1Gi", "storage: -1Gi", 1))}}, Options{})
	if got, want := problems.Errors().String(), "f:12: PersistentVolumeClaim default/data-web-0: spec.resources[storage]: Invalid value: \"-1Gi\": must be greater than zero"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
