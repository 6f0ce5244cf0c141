package imagepull

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/internal/identity"
)

var testID = identity.Pod{Namespace: "default", Name: "images", UID: "u-1"}

func podOf(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	pod.Annotations = map[string]string{"team": "blue"}
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestNewNamesImagesAsTheKubeletDoes checks the image names of kubelet-golden case
// 28-image-policies.
func TestNewNamesImagesAsTheKubeletDoes(t *testing.T) {
	plan, problems := New(podOf(t, `
initContainers:
- {name: init, image: busybox, imagePullPolicy: IfNotPresent}
containers:
- {name: default-tag, image: "registry.example/app:1", imagePullPolicy: IfNotPresent}
- {name: short, image: "busybox:latest", imagePullPolicy: Always}
- {name: port, image: "127.0.0.1:5000/app", imagePullPolicy: Never}
- {name: digest, image: "registry.example/app@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", imagePullPolicy: IfNotPresent}
- {name: invalid, image: "Registry.Example/UPPER:1", imagePullPolicy: IfNotPresent}
- {name: empty, image: "", imagePullPolicy: IfNotPresent}
`), testID, "kata")
	want := Plan{ID: testID, Annotations: map[string]string{"team": "blue"}, RuntimeHandler: "kata", Images: []Image{
		{Name: "busybox", Ref: "busybox:latest", Policy: "Always", Containers: []Container{
			{Name: "init", Image: "busybox", Policy: "IfNotPresent", FieldPath: "spec.initContainers{init}"},
			{Name: "short", Image: "busybox:latest", Policy: "Always", FieldPath: "spec.containers{short}"},
		}},
		{Name: "registry.example/app:1", Ref: "registry.example/app:1", Policy: "IfNotPresent", Containers: []Container{
			{Name: "default-tag", Image: "registry.example/app:1", Policy: "IfNotPresent", FieldPath: "spec.containers{default-tag}"},
		}},
		{Name: "127.0.0.1:5000/app", Ref: "127.0.0.1:5000/app:latest", Policy: "Never", Containers: []Container{
			{Name: "port", Image: "127.0.0.1:5000/app", Policy: "Never", FieldPath: "spec.containers{port}"},
		}},
		{Name: "registry.example/app@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Ref: "registry.example/app@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			Policy: "IfNotPresent", Containers: []Container{{Name: "digest", Image: "registry.example/app@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
				Policy: "IfNotPresent", FieldPath: "spec.containers{digest}"}}},
	}}

	if diff := cmp.Diff(want, plan); diff != "" {
		t.Error(diff)
	}
	if len(problems) != 2 {
		t.Fatalf("problems: %v", problems)
	}
	const message = `Failed to apply default image tag "Registry.Example/UPPER:1": couldn't parse image name "Registry.Example/UPPER:1": invalid reference format: repository name (UPPER) must be lowercase`
	if p := problems[0]; p.Field != "spec.containers[4].image" || p.Reason != "InvalidImageName" || p.Message != message {
		t.Errorf("problem %+v", p)
	}

	again := plan.Only("init")
	if len(again.Images) != 1 || again.Images[0].Policy != "IfNotPresent" || len(again.Images[0].Containers) != 1 {
		t.Errorf("the plan of one container: %+v", again.Images)
	}
	if len(plan.Images[0].Containers) != 2 {
		t.Error("Only changed its receiver")
	}
}

func TestBackOff(t *testing.T) {
	var b backOff
	key, other := backOffKey{"u", "x:1"}, backOffKey{"u2", "x:1"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, want := range []int{10, 20, 40, 80, 160, 300, 300} {
		if got := b.Fail(key, why{}, 0, now); got != time.Duration(want)*time.Second {
			t.Errorf("failure %d: %v, want %d s", i+1, got, want)
		}
		if got := b.Left(key, now.Add(time.Second)); got != time.Duration(want-1)*time.Second {
			t.Errorf("failure %d: %v left after 1 s", i+1, got)
		}
		now = now.Add(time.Duration(want) * time.Second)
		if got := b.Left(key, now); got != 0 {
			t.Errorf("failure %d: %v left at the end", i+1, got)
		}
	}
	if got := b.Left(other, now); got != 0 {
		t.Errorf("another pod's image waits %v", got)
	}
	if got := b.Fail(key, why{}, 0, now.Add(601*time.Second)); got != 10*time.Second {
		t.Errorf("long after: %v, want 10 s", got)
	}
	b.Succeed(key)
	if got := b.Fail(key, why{}, 0, now); got != 10*time.Second {
		t.Errorf("after a success: %v, want 10 s", got)
	}
}

func TestLimiter(t *testing.T) {
	l := newLimiter(5, 2)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, want := range []time.Duration{0, 0, 200 * time.Millisecond, 400 * time.Millisecond} {
		if got := l.ReserveN(now, 1).DelayFrom(now); got != want {
			t.Errorf("pull %d waits %v, want %v", i+1, got, want)
		}
	}
	later := now.Add(time.Hour)
	if got := l.ReserveN(later, 1).DelayFrom(later); got != 0 {
		t.Errorf("an hour later: %v", got)
	}
	none := newLimiter(0, 0)
	for range 3 {
		if got := none.ReserveN(now, 1).DelayFrom(now); got != 0 {
			t.Errorf("no limit: %v", got)
		}
	}
	// Even if registryBurst is 0, one pull must be able to start.
	one := newLimiter(5, 0)
	if first, second := one.ReserveN(now, 1).DelayFrom(now), one.ReserveN(now, 1).DelayFrom(now); first != 0 || second != 200*time.Millisecond {
		t.Errorf("no burst: %v and %v", first, second)
	}
}
