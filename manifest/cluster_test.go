package manifest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/manifest/input"
)

// exported is a pod as printed by kubectl get pod -o yaml.
const exported = `apiVersion: v1
kind: Pod
metadata:
  annotations: {kubernetes.io/config.seen: x}
  creationTimestamp: "2026-01-02T03:04:05Z"
  deletionGracePeriodSeconds: 30
  finalizers: [example.com/x]
  generateName: web-
  generation: 1
  labels: {app: web}
  managedFields:
  - {apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:name": {}}}, manager: kubectl, operation: Update}
  name: web-abcde
  namespace: prod
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u1}]
  resourceVersion: "123"
  selfLink: /api/v1/x
  uid: 0b5fb0f5-3b1c-4d5a-9d5d-2f1b5b1e9c11
spec:
  containers:
  - image: nginx:1.27
    imagePullPolicy: IfNotPresent
    name: c
    volumeMounts:
    - {mountPath: /var/run/secrets/kubernetes.io/serviceaccount, name: kube-api-access-x2x5z, readOnly: true}
    - {mountPath: /data, name: data}
  initContainers:
  - image: nginx:1.27
    name: i
    volumeMounts:
    - {mountPath: /var/run/secrets/kubernetes.io/serviceaccount, name: kube-api-access-x2x5z, readOnly: true}
  nodeName: worker-7
  preemptionPolicy: PreemptLowerPriority
  priority: 0
  schedulerName: default-scheduler
  serviceAccount: builder
  serviceAccountName: builder
  tolerations:
  - {effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 300}
  volumes:
  - {name: data, emptyDir: {}}
  - name: kube-api-access-x2x5z
    projected:
      defaultMode: 420
      sources:
      - serviceAccountToken: {expirationSeconds: 3607, path: token}
      - configMap: {items: [{key: ca.crt, path: ca.crt}], name: kube-root-ca.crt}
      - downwardAPI: {items: [{fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}, path: namespace}]}
status:
  phase: Running
  podIP: 10.1.2.3
  qosClass: BestEffort
  startTime: "2026-01-02T03:04:05Z"
`

// TestExported checks that a pod that was exported from a cluster equals the pod in its file,
// apart from the fields that only an API server sets.
func TestExported(t *testing.T) {
	objects, warnings := load(t, exported, Options{})
	want := []string{`f:42: Pod prod/web-abcde: spec.volumes[1]: volume "kube-api-access-x2x5z" and its mounts are ignored: it is for the service account token of a cluster`}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
	pod := objects.Pods[0]
	o := pod.Object
	if pod.NodeName != "worker-7" || o.Spec.NodeName != "" || o.Spec.ServiceAccountName != "builder" || len(o.Spec.Tolerations) != 1 {
		t.Errorf("node %q (now %q), service account %q, %d tolerations", pod.NodeName, o.Spec.NodeName, o.Spec.ServiceAccountName, len(o.Spec.Tolerations))
	}
	if len(o.Spec.Volumes) != 1 || len(o.Spec.Containers[0].VolumeMounts) != 1 || len(o.Spec.InitContainers[0].VolumeMounts) != 0 {
		t.Errorf("volumes %v, mounts %v and %v", o.Spec.Volumes, o.Spec.Containers[0].VolumeMounts, o.Spec.InitContainers[0].VolumeMounts)
	}
	if diff := cmp.Diff(corev1.PodStatus{}, o.Status); diff != "" {
		t.Error(diff)
	}
	if o.ManagedFields != nil || o.OwnerReferences != nil || o.ResourceVersion != "" || !o.CreationTimestamp.IsZero() || o.Finalizers != nil || o.DeletionGracePeriodSeconds != nil || o.Generation != 0 || o.SelfLink != "" {
		t.Errorf("server fields are left: %+v", o.ObjectMeta)
	}
	if o.UID != "0b5fb0f5-3b1c-4d5a-9d5d-2f1b5b1e9c11" || o.Labels["app"] != "web" || len(o.Annotations) != 1 {
		t.Errorf("lost: %+v", o.ObjectMeta)
	}
}

func TestStrictClusterFields(t *testing.T) {
	_, problems := Load([]input.Source{{Name: "f", Data: []byte(exported)}}, Options{StrictClusterFields: true})
	want := `f:42: Pod prod/web-abcde: spec.volumes[1]: volume "kube-api-access-x2x5z" is for a service account token, which requires a cluster (remove the volume and its mounts, or run without --strict-cluster-fields)`
	if got := problems.Errors().String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestTokenVolumeOfTheUser checks that podrun removes only the volume that the API server's
// admission adds, and not one with a similar name.
func TestTokenVolumeOfTheUser(t *testing.T) {
	text := strings.Replace(exported, "- serviceAccountToken: {expirationSeconds: 3607, path: token}\n      ", "", 1)
	objects, warnings := load(t, text, Options{})
	want := []string{"f:37: Pod prod/web-abcde: spec.serviceAccountName: no token is mounted: there is no API server that could issue one"}
	if len(objects.Pods[0].Object.Spec.Volumes) != 2 || !slices.Equal(warnings, want) {
		t.Errorf("volumes %v, warnings %q", objects.Pods[0].Object.Spec.Volumes, warnings)
	}
}

// TestNoToken checks that a pod that requests a service account's token gets a warning that it
// has none.
func TestNoToken(t *testing.T) {
	for spec, want := range map[string]string{
		"serviceAccountName: default":                                      "",
		"serviceAccountName: builder":                                      "spec.serviceAccountName",
		"serviceAccount: builder":                                          "spec.serviceAccountName",
		"automountServiceAccountToken: true":                               "spec.automountServiceAccountToken",
		"serviceAccountName: builder, automountServiceAccountToken: false": "",
	} {
		_, warnings := load(t, "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {"+spec+", containers: [{name: c, image: i}]}}", Options{})
		if said := strings.Join(warnings, ""); (want == "") != (said == "") || !strings.Contains(said, want+": no token") && want != "" {
			t.Errorf("%s: warnings %q, want one about %q", spec, warnings, want)
		}
	}
}

// TestOldInitContainerAnnotations checks that podrun drops the annotations that the API drops when it converts a
// pod or a template.
func TestOldInitContainerAnnotations(t *testing.T) {
	const annotations = "{pod.alpha.kubernetes.io/init-containers: '[]', pod.beta.kubernetes.io/init-container-statuses: '[]', pod.alpha.kubernetes.io/other: kept}"
	objects, _ := load(t, strings.Replace(head, "{name: a}", "{name: a, annotations: "+annotations+"}", 1)+`---
apiVersion: v1
kind: PodTemplate
metadata: {name: b}
template: {metadata: {annotations: `+annotations+`}, spec: {containers: [{name: c, image: i}]}}
`, Options{})
	for _, p := range objects.Pods {
		if diff := cmp.Diff(map[string]string{"pod.alpha.kubernetes.io/other": "kept"}, p.Object.Annotations); diff != "" {
			t.Error(diff)
		}
	}
}

// TestAppArmorAnnotations checks that deprecated annotations become fields (KEP-24), because
// the kubelet reads only the fields. A field in the file must take precedence, and a profile
// for the pod suffices.
func TestAppArmorAnnotations(t *testing.T) {
	key := "container.apparmor.security.beta.kubernetes.io/"
	text := `apiVersion: v1
kind: Pod
metadata:
  name: a
  annotations: {` + key + `local: localhost/p, ` + key + `un: unconfined, ` + key + `same: runtime/default, ` + key + `field: unconfined}
spec:
  securityContext: {appArmorProfile: {type: RuntimeDefault}}
  containers:
  - {name: local, image: i}
  - {name: un, image: i, securityContext: {runAsUser: 1}}
  - {name: same, image: i}
  - {name: field, image: i, securityContext: {appArmorProfile: {type: Unconfined}}}
  - {name: none, image: i}
`
	objects, _ := load(t, text, Options{})
	got := map[string]string{}
	for _, c := range objects.Pods[0].Object.Spec.Containers {
		if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			p := c.SecurityContext.AppArmorProfile
			got[c.Name] = string(p.Type)
			if p.LocalhostProfile != nil {
				got[c.Name] += " " + *p.LocalhostProfile
			}
		}
	}
	if diff := cmp.Diff(map[string]string{"local": "Localhost p", "un": "Unconfined", "field": "Unconfined"}, got); diff != "" {
		t.Error(diff)
	}
}
