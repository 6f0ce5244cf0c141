package manifest

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestWorkloadObject checks that if the workload of a checkpoint is applied again, it defines the same
// pod and is the same workload.
func TestWorkloadObject(t *testing.T) {
	const template = `{metadata: {labels: {app: web}, annotations: {a: b}}, spec: {restartPolicy: %s, containers: [{name: app, image: "a:1", volumeMounts: [{name: data, mountPath: /d}]}], volumes: [{name: data, emptyDir: {}}]}}`
	always, never := fmt.Sprintf(template, "Always"), fmt.Sprintf(template, "Never")
	for kind, text := range map[string]string{
		"Deployment":            "apiVersion: apps/v1\nspec: {replicas: 3, selector: {matchLabels: {app: web}}, template: " + always + "}",
		"DaemonSet":             "apiVersion: apps/v1\nspec: {selector: {matchLabels: {app: web}}, template: " + always + "}",
		"ReplicaSet":            "apiVersion: apps/v1\nspec: {selector: {matchLabels: {app: web}}, template: " + always + "}",
		"StatefulSet":           "apiVersion: apps/v1\nspec: {serviceName: s, selector: {matchLabels: {app: web}}, template: " + always + ", volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}",
		"ReplicationController": "apiVersion: v1\nspec: {selector: {app: web}, template: " + always + "}",
		"Job":                   "apiVersion: batch/v1\nspec: {backoffLimit: 2, template: " + never + "}",
		"CronJob":               "apiVersion: batch/v1\nspec: {schedule: '0 3 * * *', timeZone: Europe/Berlin, jobTemplate: {spec: {template: " + never + "}}}",
		"PodTemplate":           "apiVersion: v1\ntemplate: " + always,
	} {
		objects, problems := load(t, text+"\nkind: "+kind+"\nmetadata: {name: web, namespace: shop, labels: {tier: front}}\n", Options{})
		if len(objects.Pods) != 1 {
			t.Errorf("%s: %v", kind, problems)
			continue
		}
		p := objects.Pods[0]
		// This is podrun's default, which the author did not write.
		made := PreferUserNamespace(p.Object)
		o, err := WorkloadObject(made, p.Definition)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		again, problems := load(t, string(data), Options{})
		if len(again.Pods) != 1 {
			t.Errorf("%s: %v\n%s", kind, problems, data)
			continue
		}
		if changes := Changes(p.Object, again.Pods[0].Object); len(changes) > 0 || again.Pods[0].Object.Namespace != "shop" {
			t.Errorf("%s: the pod differs in %v\n%s", kind, changes, data)
		}
		second, err := WorkloadObject(made, again.Pods[0].Definition)
		if err != nil || !sameJSON(o, second) {
			t.Errorf("%s: the workload differs: %v", kind, err)
		}
		if kind == "StatefulSet" && len(again.Claims) != 1 {
			t.Errorf("claims %v", again.Claims)
		}
	}
	if o, err := WorkloadObject(&corev1.Pod{}, definedByPod()); o != nil || err != nil {
		t.Errorf("of a Pod: %v, %v", o, err)
	}
}
