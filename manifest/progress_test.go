package manifest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestProgressDeadline(t *testing.T) {
	workload := &Definition{Kind: "Deployment", Workload: []byte(`{"metadata":{"annotations":{"podrun.dev/progress-deadline":"3m"}},"spec":{"minReadySeconds":30}}`)}
	for _, test := range []struct {
		annotation string
		d          *Definition
		setting    time.Duration
		want       time.Duration
		invalid    bool
	}{
		{"", nil, 0, 0, false},
		{"", nil, time.Minute, time.Minute, false},
		{"2m", nil, time.Minute, 2 * time.Minute, false},
		{"0", nil, time.Minute, 0, false},
		{"", workload, time.Minute, 3 * time.Minute, false},
		{"2m", workload, time.Minute, 2 * time.Minute, false},
		{"2", nil, 0, 0, true},
		{"-2m", nil, 0, 0, true},
		{"soon", workload, 0, 0, true},
	} {
		pod := &corev1.Pod{}
		if test.annotation != "" {
			pod.Annotations = map[string]string{"podrun.dev/progress-deadline": test.annotation}
		}
		got, err := ProgressDeadline(pod, test.d, test.setting)
		if got != test.want || (err != nil) != test.invalid {
			t.Errorf("%+v: %s, %v", test, got, err)
		}
	}
	if got := workload.MinReady(); got != 30*time.Second {
		t.Errorf("minReadySeconds %s", got)
	}
	if got := (*Definition)(nil).MinReady(); got != 0 {
		t.Errorf("minReadySeconds of a Pod %s", got)
	}
}

func TestCheckpointHash(t *testing.T) {
	of := func(change func(*Checkpoint)) string {
		c := Checkpoint{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"a": "b"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "i"}}}},
			ConfigMaps: []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"k": "v"}}}}
		change(&c)
		return c.Hash()
	}
	plain := of(func(*Checkpoint) {})
	for name, change := range map[string]func(*Checkpoint){
		"UID":                 func(c *Checkpoint) { c.Pod.UID = "u" },
		"creation time":       func(c *Checkpoint) { c.Pod.CreationTimestamp = metav1.Now() },
		"node":                func(c *Checkpoint) { c.Pod.Spec.NodeName = "n" },
		"status":              func(c *Checkpoint) { c.Pod.Status.Phase = corev1.PodRunning },
		"change cause":        func(c *Checkpoint) { c.Pod.Annotations = map[string]string{ChangeCause: "x"} },
		"images":              func(c *Checkpoint) { c.Images = map[string]string{"i": "sha256:1"} },
		"ephemeral container": func(c *Checkpoint) { c.Pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}} },
	} {
		if of(change) != plain {
			t.Errorf("%s changes the hash", name)
		}
	}
	for name, change := range map[string]func(*Checkpoint){
		"label":     func(c *Checkpoint) { c.Pod.Labels["a"] = "c" },
		"image":     func(c *Checkpoint) { c.Pod.Spec.Containers[0].Image = "j" },
		"ConfigMap": func(c *Checkpoint) { c.ConfigMaps[0].Data["k"] = "w" },
		"Secret":    func(c *Checkpoint) { c.Secrets = []*corev1.Secret{{}} },
	} {
		if of(change) == plain {
			t.Errorf("%s does not change the hash", name)
		}
	}
	if h := of(func(c *Checkpoint) { c.SecretsLost = true }); h != "" {
		t.Errorf("without the Secrets: %s", h)
	}
}
