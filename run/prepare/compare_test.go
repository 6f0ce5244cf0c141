package prepare

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
)

// existingPod returns the pod that an earlier apply of the text left on this host.
func existingPod(t *testing.T, text, uid string) ExistingPod {
	t.Helper()
	pod := load(t, text).Pods[0].Object
	if uid == "" {
		uid = manifest.UID(pod, "node-a", "")
	}
	planned, _ := NewPlan(PlanInput{Pod: pod, UID: uid, Objects: load(t, text), Facts: testFacts, Settings: testSettings()})
	// The pod is converted to a checkpoint and back.
	data, err := planned.Checkpoint.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	c, err := manifest.Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return ExistingPod{ID: identity.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: uid}, Pod: c.Pod}
}

// TestRefusedMountIsToldOnce checks that admission reports a refused mount only once, with the
// field and the fix, and not also as a container that cannot be planned. podrun must print the plan
// nevertheless.
func TestRefusedMountIsToldOnce(t *testing.T) {
	t.Parallel()
	text := podText("web", "Always", "containers:",
		"- {name: app, image: registry.example/app:1, volumeMounts: [{name: d, mountPath: /d, readOnly: true, recursiveReadOnly: Enabled}]}",
		"- {name: fine, image: registry.example/app:1}", "volumes: [{name: d, emptyDir: {}}]")
	targets, problems := All(Input{Objects: load(t, text), HostState: HostState{Facts: testFacts}, Settings: testSettings()})
	var fields []string
	for _, p := range problems.Errors() {
		if strings.Contains(p.Field, "volumeMounts") {
			fields = append(fields, p.Field)
		}
	}
	if want := []string{"spec.containers[0].volumeMounts[0].recursiveReadOnly"}; !slices.Equal(fields, want) {
		t.Errorf("reported fields %q, want %q", fields, want)
	}
	view, err := targets[0].View()
	if err != nil {
		t.Fatal(err)
	}
	if len(view.Containers) != 2 || view.Containers[0].Config != nil || view.Containers[1].Config == nil {
		t.Errorf("containers: %+v", view.Containers)
	}
}

func TestChange(t *testing.T) {
	t.Parallel()
	text := podText("web", "Always", "containers: [{name: app, image: registry.example/app:1, resources: {limits: {cpu: 1000m}}}]")
	same := podText("web", "Always", "containers:", "- resources: {requests: {cpu: '1'}, limits: {cpu: 1}}", "  image: registry.example/app:1", "  name: app")
	image := podText("web", "Always", "containers: [{name: app, image: registry.example/app:2, resources: {limits: {cpu: 1000m}}}]")
	command := podText("web", "Always", "containers: [{name: app, image: registry.example/app:1, command: [sh]}]")
	other := podText("db", "Always", "containers: [{name: app, image: registry.example/app:1}]")
	withUID := "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: u-7}\nspec: {containers: [{name: app, image: registry.example/app:1}]}\n"
	unknown := ExistingPod{ID: identity.Pod{Namespace: "default", Name: "web", UID: "u-9"}}
	own := manifest.UID(load(t, text).Pods[0].Object, "node-a", "")
	for _, tc := range []struct {
		name string
		pod  string
		here []ExistingPod
		want Change
		// the UID of the pod, in place of the existing pod's; "" keeps the existing one
		uid  string
		old  int
		diff []string
	}{
		{name: "nothing here", pod: text, want: ChangeNew, uid: own},
		{name: "another pod here", pod: text, here: []ExistingPod{existingPod(t, other, "")}, want: ChangeNew, uid: own},
		{name: "the same file", pod: text, here: []ExistingPod{existingPod(t, text, "")}, want: ChangeUnchanged, uid: own},
		{name: "the same in other words", pod: same, here: []ExistingPod{existingPod(t, text, "")}, want: ChangeUnchanged, uid: own},
		{name: "an image", pod: image, here: []ExistingPod{existingPod(t, text, "")}, want: ChangeUpdate, uid: own,
			diff: []string{"spec.containers[0].image"}},
		{name: "an image, and back", pod: text, here: []ExistingPod{existingPod(t, image, own)}, want: ChangeUpdate, uid: own, diff: []string{"spec.containers[0].image"}},
		{name: "a command", pod: command, here: []ExistingPod{existingPod(t, text, "")}, want: ChangeReplace, old: 1},
		{name: "a pod whose checkpoint is gone", pod: text, here: []ExistingPod{unknown}, want: ChangeReplace, uid: own, old: 1},
		{name: "two of its name", pod: text, here: []ExistingPod{existingPod(t, text, ""), existingPod(t, command, "")}, want: ChangeReplace, uid: own, old: 2},
		{name: "a UID of its own", pod: withUID, want: ChangeNew, uid: "u-7"},
		{name: "the same UID of its own", pod: withUID, here: []ExistingPod{existingPod(t, withUID, "")}, want: ChangeUnchanged, uid: "u-7"},
		{name: "another UID of its own", pod: withUID, here: []ExistingPod{existingPod(t, withUID, "u-6")}, want: ChangeReplace, uid: "u-7", old: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Compare(load(t, tc.pod).Pods[0].Object, Input{HostState: HostState{Existing: tc.here, Facts: testFacts}})
			if got.Change != tc.want || len(got.Old) != tc.old {
				t.Errorf("%s of %d, want %s of %d", got.Change, len(got.Old), tc.want, tc.old)
			}
			if tc.uid != "" && got.UID != tc.uid {
				t.Errorf("uid %s, want %s", got.UID, tc.uid)
			}
			if tc.uid == "" && (got.UID == "" || got.UID == tc.here[0].ID.UID) {
				t.Errorf("uid %q", got.UID)
			}
			if tc.diff != nil && !slices.Equal(got.Changes, tc.diff) {
				t.Errorf("changes %v, want %v", got.Changes, tc.diff)
			}
			if got.Change == ChangeUnchanged && len(got.Changes) > 0 {
				t.Errorf("%s with changes %v", got.Change, got.Changes)
			}
		})
	}
}

// TestUpgradeGateOff covers a field in a checkpoint whose feature gate was enabled in another
// Kubernetes version. This version drops the field from a manifest, which must not count as a
// change.
func TestUpgradeGateOff(t *testing.T) {
	t.Parallel()
	text := podText("web", "Always", "os: {name: linux}", "containers: [{name: app, image: registry.example/app:1, lifecycle: {stopSignal: SIGUSR1}}]")
	is := load(t, text).Pods[0].Object
	if is.Spec.Containers[0].Lifecycle != nil {
		t.Fatal("the gate ContainerStopSignals is on: the test needs another field")
	}
	was := existingPod(t, text, "")
	signal := corev1.SIGUSR1
	was.Pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: &signal}
	got := Compare(is, Input{HostState: HostState{Existing: []ExistingPod{was}, Facts: testFacts}})
	if got.Change != ChangeUnchanged {
		t.Errorf("%s: %q", got.Change, got.Changes)
	}
	is.Spec.Containers[0].Command = []string{"sh"}
	got = Compare(is, Input{HostState: HostState{Existing: []ExistingPod{was}, Facts: testFacts}})
	if !slices.Equal(got.Changes, []string{"spec.containers[0].command"}) {
		t.Errorf("%s: %q", got.Change, got.Changes)
	}
}
