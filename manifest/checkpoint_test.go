package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCheckpoint checks that a checkpoint is read back completely, and always has the same
// bytes.
func TestCheckpoint(t *testing.T) {
	objects, _ := load(t, head+`    env: [{name: A, value: "yes"}, {name: B, value: "1e3"}, {name: C, value: "a: |\n ---\n"}]
    resources: {limits: {cpu: 100m}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {k: "---\n...\n"}, binaryData: {b: AAEC}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {k: AAEC}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /data}}}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: r}, handler: kata}
`, Options{})
	want := Checkpoint{
		Pod:          objects.Pods[0].Object,
		ConfigMaps:   []*corev1.ConfigMap{objects.ConfigMaps["default/m"]},
		Secrets:      []*corev1.Secret{objects.Secrets["default/s"]},
		Claims:       []*corev1.PersistentVolumeClaim{objects.Claims["default/c"]},
		Volumes:      []*corev1.PersistentVolume{objects.Volumes["v"]},
		RuntimeClass: objects.RuntimeClasses["r"],
	}
	data, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if StaticUID(got.Pod, "n", "") != StaticUID(want.Pod, "n", "") {
		t.Error("the pod that was read back has another UID")
	}
	again, err := got.Marshal()
	if err != nil || string(again) != string(data) {
		t.Errorf("written again it differs: %v\n%s", err, cmp.Diff(string(data), string(again)))
	}
}

// TestCheckpointKinds checks that objects that a program has created need no apiVersion and
// kind, and that Marshal does not change them.
func TestCheckpointKinds(t *testing.T) {
	c := Checkpoint{
		Pod:          &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		ConfigMaps:   []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "m"}}},
		RuntimeClass: &nodev1.RuntimeClass{Handler: "h"},
	}
	data, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	if got.Pod.Kind != "Pod" || got.ConfigMaps[0].Kind != "ConfigMap" || got.RuntimeClass.APIVersion != "node.k8s.io/v1" {
		t.Errorf("kinds of %s", data)
	}
	if c.Pod.Kind != "" || c.ConfigMaps[0].Kind != "" {
		t.Error("writing changed the objects")
	}
}

func TestCheckpointErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "read the checkpoint: it has no pod",
		"kind: Service\n":                    "read the checkpoint: line 1: unexpected kind \"Service\"",
		"a: b: c\n":                          "read the checkpoint: line 1: not valid YAML",
		"kind: Pod\nspec: 1\n":               "read the checkpoint: line 1: json: cannot unmarshal number",
		"kind: ConfigMap\n---\nnothing: 1\n": "read the checkpoint: line 3: unexpected kind \"\"",
	} {
		if _, err := Unmarshal([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := (Checkpoint{}).Marshal(); err == nil {
		t.Error("a checkpoint without a pod was written")
	}
	// Unknown fields of a later version must be accepted.
	if c, err := Unmarshal([]byte("kind: Pod\nmetadata: {name: a}\nspec: {later: 1}\n")); err != nil || c.Pod.Name != "a" {
		t.Errorf("%v, %v", c.Pod, err)
	}
}

// TestCheckpointDefault covers a checkpoint of an older podrun with fewer defaults: it must get
// the missing ones, and keep the existing values.
func TestCheckpointDefault(t *testing.T) {
	old, err := Unmarshal([]byte(`# podrun pod default/web
{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":"default","uid":"u-1"},"spec":{"nodeName":"n","terminationGracePeriodSeconds":7,"containers":[{"name":"app","image":"a:1"}]}}
---
{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"pv"},"spec":{"hostPath":{"path":"/"}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		old.Default()
		spec := old.Pod.Spec
		if old.Pod.UID != "u-1" || spec.NodeName != "n" || *spec.TerminationGracePeriodSeconds != 7 || spec.RestartPolicy != "Always" ||
			spec.ServiceAccountName != "default" || spec.SecurityContext == nil || spec.Containers[0].TerminationMessagePath == "" {
			t.Errorf("pod %+v", old.Pod)
		}
		if v := old.Volumes[0].Spec; v.VolumeMode == nil || v.HostPath.Type == nil {
			t.Errorf("volume %+v", v)
		}
	}
}
