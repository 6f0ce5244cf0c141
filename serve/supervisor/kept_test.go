package supervisor

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/store"
)

// TestConfigChanged checks the message of the event for changed ConfigMaps and Secrets.
func TestConfigChanged(t *testing.T) {
	changes := []string{"spec.containers[0].image", "Secret shop/key", "ConfigMap shop/web", "PersistentVolume data"}
	for restarts, want := range map[bool]string{
		false: "ConfigMap shop/web, Secret shop/key changed: podrun updates the files in volumes; environment variables keep their values until the containers start again",
		true:  "ConfigMap shop/web, Secret shop/key changed: podrun restarts the pod",
	} {
		if got := configChanged(changes, restarts); got != want {
			t.Errorf("restarts %v: %q", restarts, got)
		}
	}
	if got := configChanged(changes[:1], false); got != "" {
		t.Errorf("only the pod: %q", got)
	}
}

// referring returns a pod web and the ConfigMaps a and b, to which the pod refers. The pod has the
// given image, and the ConfigMaps have the given data. If the data is "", the ConfigMap is omitted.
func referring(image, a, b string) *manifest.Objects {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: image}}
	o := &manifest.Objects{}
	o.Add(&manifest.Objects{Pods: []manifest.Pod{{Object: pod}}})
	for name, data := range map[string]string{"a": a, "b": b} {
		pod.Spec.Containers[0].EnvFrom = append(pod.Spec.Containers[0].EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}})
		if data != "" {
			o.ConfigMaps["shop/"+name] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: map[string]string{"key": data}}
		}
	}
	slices.SortFunc(pod.Spec.Containers[0].EnvFrom, func(a, b corev1.EnvFromSource) int {
		return int(a.ConfigMapRef.Name[0]) - int(b.ConfigMapRef.Name[0])
	})
	return o
}

// TestKeptDefinition covers a pod that a command has defined. The pod must keep this definition while only
// objects to which it refers change in the source. Each object must have the content of its last change.
func TestKeptDefinition(t *testing.T) {
	for _, c := range []struct {
		name   string
		origin string
		// applied is nil if the record contains no hashes of documents.
		applied, now, command *manifest.Objects
		kept                  bool
		image, a, b           string // expected values of the result
	}{
		{"a ConfigMap changes", store.OriginApply, referring("web:1", "1", "1"), referring("web:1", "2", "1"), referring("web:9", "1", "1"), true, "web:9", "2", "1"},
		{"nothing changes", store.OriginApply, referring("web:1", "1", "1"), referring("web:1", "1", "1"), referring("web:9", "1", "1"), true, "web:9", "1", "1"},
		{"another ConfigMap than the one of the command changes", store.OriginApply, referring("web:1", "1", "1"), referring("web:1", "2", "1"), referring("web:9", "1", "9"), true, "web:9", "2", "9"},
		{"the ConfigMap of the command changes", store.OriginApply, referring("web:1", "1", "1"), referring("web:1", "2", "1"), referring("web:9", "9", "1"), true, "web:9", "2", "1"},
		{"a ConfigMap is added", store.OriginApply, referring("web:1", "1", ""), referring("web:1", "1", "1"), referring("web:9", "1", ""), true, "web:9", "1", "1"},
		{"a ConfigMap is removed", store.OriginApply, referring("web:1", "1", "1"), referring("web:1", "1", ""), referring("web:9", "1", "1"), true, "web:9", "1", ""},
		{"the pod changes", store.OriginApply, referring("web:1", "1", "1"), referring("web:2", "1", "1"), referring("web:9", "1", "1"), false, "", "", ""},
		{"the pod came from the source", store.OriginServe, referring("web:1", "1", "1"), referring("web:1", "2", "1"), referring("web:1", "1", "1"), false, "", "", ""},
		{"an older version applied the source", store.OriginApply, nil, referring("web:1", "2", "1"), referring("web:9", "1", "1"), false, "", "", ""},
	} {
		var applied map[string]string
		if c.applied != nil {
			applied = documents(c.applied)
		}
		kept := keepsDefinition(&store.Origin{Command: c.origin}, applied, c.now)
		if kept != c.kept {
			t.Errorf("%s: kept %v, want %v", c.name, kept, c.kept)
		}
		if !kept {
			continue
		}
		got := withChanged(manifest.Referred(c.command.Pods[0].Object, c.command), c.now, applied)
		data := func(name string) string {
			if m := got.ConfigMaps["shop/"+name]; m != nil {
				return m.Data["key"]
			}
			return ""
		}
		if image := got.Pods[0].Object.Spec.Containers[0].Image; image != c.image || data("a") != c.a || data("b") != c.b {
			t.Errorf("%s: image %q, a %q, b %q, want %q, %q, %q", c.name, image, data("a"), data("b"), c.image, c.a, c.b)
		}
	}
}
