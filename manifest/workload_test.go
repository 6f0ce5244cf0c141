package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/manifest/input"
)

// TestWorkloads checks that each kind with a pod template results in one pod, with the object's
// name and the template's labels, and in a notice.
func TestWorkloads(t *testing.T) {
	for kind, tc := range map[string]struct{ apiVersion, open, end, restart string }{
		"Deployment":            {"apps/v1", "{selector: {matchLabels: {l: l}}, template: ", "}", ""},
		"DaemonSet":             {"apps/v1", "{selector: {matchLabels: {l: l}}, template: ", "}", "Always"},
		"StatefulSet":           {"apps/v1", "{selector: {matchLabels: {l: l}}, template: ", "}", ""},
		"ReplicaSet":            {"apps/v1", "{selector: {matchLabels: {l: l}}, template: ", "}", ""},
		"ReplicationController": {"v1", "{template: ", "}", ""},
		"Job":                   {"batch/v1", "{template: ", "}", "Never"},
		"CronJob":               {"batch/v1", "{schedule: '* * * * *', timeZone: Europe/Berlin, jobTemplate: {spec: {template: ", "}}}", "OnFailure"},
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
			var want []string
			if note := templateNotes[kind]; note != "" {
				want = []string{"f:1: " + kind + " ns/web: " + note}
			}
			if diff := cmp.Diff(want, warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTemplateNote checks that podrun warns only if a cluster would run another number of pods, and names the annotation.
func TestTemplateNote(t *testing.T) {
	for spec, want := range map[string]string{
		"metadata: {name: web}\nspec: {":                                                          "",
		"metadata: {name: web}\nspec: {replicas: 1, ":                                             "",
		"metadata: {name: web}\nspec: {replicas: 3, ":                                             "podrun runs one pod from the template of this Deployment: spec.replicas is 3 add the annotation podrun.dev/replicas: honour to the Deployment to run 3 pods",
		"metadata: {name: web, annotations: {podrun.dev/replicas: ignore}}\nspec: {replicas: 3, ": "",
		"metadata: {name: web, annotations: {podrun.dev/replicas: honour}}\nspec: {replicas: 3, ": "",
	} {
		text := "apiVersion: apps/v1\nkind: Deployment\n" + spec + "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n"
		_, problems := Load([]input.Source{{Name: "f", Data: []byte(text)}}, Options{})
		got := ""
		for _, p := range problems {
			got += p.Message + " " + p.Hint
		}
		if got != want {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
	}
}

func TestPodTemplate(t *testing.T) {
	objects, _ := load(t, "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: web}\ntemplate: {spec: {containers: [{name: c, image: i}], restartPolicy: Never}}\n", Options{})
	if pod := objects.Pods[0]; pod.Object.Name != "web" || pod.From != "PodTemplate web" {
		t.Errorf("pod %s from %s", pod.Object.Name, pod.From)
	}
}

// TestWorkloadProblems checks that the paths and lines are those of the object in the file, and
// that podrun reports the API's errors about the template.
func TestWorkloadProblems(t *testing.T) {
	job := "apiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: web\nspec:\n  jobTemplate:\n    spec:\n      template:\n        metadata: {labels: {a: 'b c'}}\n        spec:\n          containers:\n          - name: c\n            foo: 1\n"
	_, problems := Load([]input.Source{{Name: "f", Data: []byte(job)}}, Options{})
	var got []string
	for _, p := range problems.Errors() {
		text, _, _ := strings.Cut(p.String(), ": a valid label")
		got = append(got, text)
	}
	want := []string{
		"f:5: CronJob default/web: spec.schedule: Required value",
		"f:9: CronJob default/web: spec.jobTemplate.spec.template.metadata.labels: Invalid value: \"b c\"",
		"f:10: CronJob default/web: spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
		"f:12: CronJob default/web: spec.jobTemplate.spec.template.spec.containers[0].image: Required value",
		"f:13: CronJob default/web: spec.jobTemplate.spec.template.spec.containers[0].foo: unknown field \"foo\"",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, problems = Load([]input.Source{{Name: "f", Data: []byte("apiVersion: v1\nkind: ReplicationController\nmetadata: {name: web}\nspec: {}\n")}}, Options{})
	if got, want := problems.String(), "f:4: ReplicationController default/web: spec.template: a pod template is required"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestClaimTemplates checks that a StatefulSet's pod gets the claims of the set's first pod,
// and that these are added to the objects.
func TestClaimTemplates(t *testing.T) {
	text := `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
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
	_, problems := Load([]input.Source{{Name: "f", Data: []byte(strings.Replace(text, "storage: 1Gi", "storage: -1Gi", 1))}}, Options{})
	if got, want := problems.Errors().String(), "f:14: PersistentVolumeClaim default/data-web-0: spec.resources[storage]: Invalid value: \"-1Gi\": must be greater than zero"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestWorkloadsOfTheAPI checks that podrun refuses an object with a pod template that an API
// server refuses, and reports each problem once.
func TestWorkloadsOfTheAPI(t *testing.T) {
	longName := strings.Repeat("n", 64)
	const template = "  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: c, image: i}]}\n"
	for name, tc := range map[string]struct {
		apiVersion, kind, spec string
		want                   []string
	}{
		"no selector": {"apps/v1", "Deployment", template, []string{
			"f:4: Deployment default/web: spec.selector: Required value",
			"f:6: Deployment default/web: spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		"another's labels": {"apps/v1", "StatefulSet", "  selector: {matchLabels: {app: db}}\n" + template, []string{
			"f:7: StatefulSet default/web: spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		"an empty selector": {"apps/v1", "DaemonSet", "  selector: {}\n" + template, []string{
			"f:5: DaemonSet default/web: spec.selector: Invalid value: {}: empty selector is invalid for daemonset"}},
		"a restart policy": {"apps/v1", "ReplicaSet", "  selector: {matchLabels: {app: web}}\n" + strings.Replace(template, "spec: {", "spec: {restartPolicy: Never, ", 1), []string{
			"f:8: ReplicaSet default/web: spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""}},
		"fields of the controller": {"apps/v1", "Deployment", "  replicas: -1\n  strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}\n  selector: {matchLabels: {app: web}}\n" + template, []string{
			"f:5: Deployment default/web: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
			"f:6: Deployment default/web: spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"}},
		"a problem of the pod, once": {"apps/v1", "Deployment", "  selector: {matchLabels: {app: web}}\n" + strings.Replace(template, "image: i", "image: ''", 1), []string{
			"f:8: Deployment default/web: spec.template.spec.containers[0].image: Required value"}},
		"a Job":                       {"batch/v1", "Job", strings.Replace(template, "spec: {", "spec: {restartPolicy: Never, ", 1), nil},
		"a Job of a cluster":          {"batch/v1", "Job", "  selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}\n" + strings.Replace(template, "spec: {", "spec: {restartPolicy: Never, ", 1), nil},
		"a Job with another selector": {"batch/v1", "Job", "  manualSelector: true\n  selector: {matchLabels: {app: db}}\n" + strings.Replace(template, "spec: {", "spec: {restartPolicy: Never, ", 1), []string{"f:8: Job default/web: spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		"a Job that always restarts":  {"batch/v1", "Job", template, []string{"f:7: Job default/web: spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""}},
		"a schedule":                  {"batch/v1", "CronJob", "  schedule: soon\n  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}\n", []string{"f:5: CronJob default/web: spec.schedule: Invalid value: \"soon\": expected exactly 5 fields, found 1: [soon]"}},
		"a removed version":           {"extensions/v1beta1", "Deployment", template, []string{"f:1: Deployment web: apiVersion: apiVersion \"extensions/v1beta1\" does not serve kind Deployment (write apiVersion: apps/v1)"}},
		"another removed one":         {"batch/v1beta1", "CronJob", template, []string{"f:1: CronJob web: apiVersion: apiVersion \"batch/v1beta1\" does not serve kind CronJob (write apiVersion: batch/v1)"}},
		"a Job with a name that no label can have": {"batch/v1", "Job", "  # LONG\n" + strings.Replace(template, "spec: {", "spec: {restartPolicy: Never, ", 1), []string{
			"f:3: Job default/" + longName + ": metadata.name: Invalid value: \"" + longName + "\": must be no more than 63 characters"}},
		"a field of a disabled feature gate":       {"apps/v1", "StatefulSet", "  updateStrategy: {rollingUpdate: {maxUnavailable: 0}}\n  selector: {matchLabels: {app: web}}\n" + template, nil},
		"a host name that the controller replaces": {"apps/v1", "StatefulSet", "  serviceName: web\n  selector: {matchLabels: {app: web}}\n" + strings.Replace(template, "spec: {", "spec: {hostname: Not_Valid, subdomain: Not_Valid, ", 1), nil},
		"a volume of a claim template": {"apps/v1", "StatefulSet", "  selector: {matchLabels: {app: web}}\n  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]\n" +
			strings.Replace(template, "image: i", "image: i, volumeMounts: [{name: data, mountPath: /data}]", 1), nil},
		"the token of a cluster": {"apps/v1", "Deployment", "  selector: {matchLabels: {app: web}}\n" +
			strings.Replace(template, "spec: {", "spec: {volumes: [{name: kube-api-access-x, projected: {sources: [{serviceAccountToken: {path: token}}]}}], ", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: " + tc.apiVersion + "\nkind: " + tc.kind + "\nmetadata: {name: web}\nspec:\n" + tc.spec
			if strings.Contains(text, "# LONG") {
				text = strings.Replace(text, "{name: web}", "{name: "+longName+"}", 1)
			}
			objects, problems := Load([]input.Source{{Name: "f", Data: []byte(text)}}, Options{})
			if tc.want == nil && strings.Contains(text, "hostname:") && (objects.Pods[0].Object.Spec.Hostname != "" || objects.Pods[0].Object.Spec.Subdomain != "web") {
				t.Errorf("the pod is %q of %q", objects.Pods[0].Object.Spec.Hostname, objects.Pods[0].Object.Spec.Subdomain)
			}
			var got []string
			for _, p := range problems.Errors() {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRelativeHostPathOfTemplate checks that a path that an option resolves is valid in a
// template.
func TestRelativeHostPathOfTemplate(t *testing.T) {
	text := "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: web}\ntemplate: {spec: {containers: [{name: c, image: i}], volumes: [{name: v, hostPath: {path: ../src}}]}}\n"
	objects, _ := load(t, text, Options{WorkingDir: "/work/dir"})
	if got := objects.Pods[0].Object.Spec.Volumes[0].HostPath.Path; got != "/work/src" {
		t.Errorf("path %s", got)
	}
}

// TestJobNames checks that a Job or CronJob may have the name of another object: its pod then gets
// another name. Without another object, its pod has its name.
func TestJobNames(t *testing.T) {
	const spec = "spec: {restartPolicy: Never, containers: [{name: c, image: i}]}"
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: NAME}\nspec: {template: {" + spec + "}}\n---\n"
	cronJob := "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: NAME}\nspec: {schedule: '@hourly', jobTemplate: {spec: {template: {" + spec + "}}}}\n---\n"
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\n" + spec + "\n---\n"
	for text, want := range map[string][]string{
		job:                    {"web"},
		job + pod:              {"web-job", "web"},
		pod + job + cronJob:    {"web", "web-job", "web-cronjob"},
		job + cronJob:          {"web", "web-cronjob"},
		strings.Repeat(job, 2): nil,
		strings.ReplaceAll(pod, "NAME", "web-job") + pod + job: nil,
	} {
		objects, problems := Load([]input.Source{{Name: "f", Data: []byte(strings.ReplaceAll(text, "NAME", "web"))}}, Options{})
		var got []string
		for _, p := range objects.Pods {
			got = append(got, p.Object.Name)
		}
		if failed := len(problems.Errors()) > 0; failed != (want == nil) {
			t.Errorf("%s\nproblems %v", text, problems)
		} else if diff := cmp.Diff(want, got); want != nil && diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	}
}
