package manifest

import (
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func onlyPod(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	objects, _ := load(t, text, Options{})
	return objects.Pods[0].Object
}

// TestStaticUID checks that the same pod has the same UID in any notation, and that any other
// pod has a different one.
func TestStaticUID(t *testing.T) {
	base := "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {x: 1x, y: 2y, z: 3z}}\nspec: {containers: [{name: c, image: i, resources: {limits: {cpu: '1', memory: 1Gi}}}]}\n"
	uid := StaticUID(onlyPod(t, base), "node1", "")
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(uid) {
		t.Fatalf("UID %q", uid)
	}
	// The UID must have this exact value, because pods of earlier processes and releases have it.
	if want := "8a65ca70578a7f911d0d2af1ba74ab83"; uid != want {
		t.Errorf("got %s, want %s", uid, want)
	}
	for name, text := range map[string]string{
		"keys in another order": "kind: Pod\nspec: {containers: [{resources: {limits: {memory: 1Gi, cpu: '1'}}, image: i, name: c}]}\nmetadata: {labels: {z: 3z, y: 2y, x: 1x}, name: a}\napiVersion: v1\n",
		"a default written out": strings.Replace(base, "spec: {", "spec: {restartPolicy: Always, ", 1),
		"a quantity otherwise":  strings.Replace(base, "cpu: '1'", "cpu: 1000m", 1),
		"the namespace written": strings.Replace(base, "{name: a,", "{name: a, namespace: default,", 1),
		"an exported pod":       strings.Replace(base, "{name: a,", "{name: a, resourceVersion: '1',", 1) + "status: {phase: Running}\n",
		"a UID of its own":      strings.Replace(base, "{name: a,", "{name: a, uid: 1a,", 1),
		"a node's name":         strings.Replace(base, "spec: {", "spec: {nodeName: other, ", 1),
	} {
		if got := StaticUID(onlyPod(t, text), "node1", ""); got != uid {
			t.Errorf("%s: another UID", name)
		}
	}
	for name, text := range map[string]string{
		"image":     strings.Replace(base, "image: i", "image: j", 1),
		"name":      strings.Replace(base, "name: a", "name: b", 1),
		"namespace": strings.Replace(base, "{name: a,", "{name: a, namespace: ns,", 1),
		"label":     strings.Replace(base, "1x", "2x", 1),
		"ConfigMap": strings.Replace(base, "image: i", "image: i, envFrom: [{configMapRef: {name: cm}}]", 1),
	} {
		if got := StaticUID(onlyPod(t, text), "node1", ""); got == uid {
			t.Errorf("another %s: the same UID", name)
		}
	}
	if StaticUID(onlyPod(t, base), "node2", "") == uid {
		t.Error("another node: the same UID")
	}
	elsewhere := StaticUID(onlyPod(t, base), "node1", "/data/podrun")
	if elsewhere == uid || elsewhere == StaticUID(onlyPod(t, base), "node1", "/data/other") {
		t.Error("another root directory: the same UID")
	}
	if want := "d1c3decae496578f2b3698885ffe3d90"; elsewhere != want {
		t.Errorf("with a root directory: got %s, want %s", elsewhere, want)
	}
	// The order of maps is random.
	for range 50 {
		if StaticUID(onlyPod(t, base), "node1", "") != uid {
			t.Fatal("the UID is not stable")
		}
	}
}

// TestUID checks that podrun uses a UID in the file.
func TestUID(t *testing.T) {
	pod := onlyPod(t, head)
	if got := UID(pod, "node1", ""); got != StaticUID(pod, "node1", "") {
		t.Errorf("UID %s", got)
	}
	pod.UID = "1a"
	if got := UID(pod, "node1", ""); got != "1a" {
		t.Errorf("UID %s", got)
	}
}
