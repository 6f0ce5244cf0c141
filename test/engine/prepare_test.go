package engine

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/prepare"
)

// testFacts are the facts about a host that podrun needs for planning.
var testFacts = host.Facts{NodeName: "node-a", Capacity: corev1.ResourceList{
	corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
}}

// existingPod returns the pod that an earlier apply of the text left on this host.
func existingPod(t *testing.T, text, uid string) prepare.ExistingPod {
	t.Helper()
	pod := load(t, text).Pods[0].Object
	if uid == "" {
		uid = manifest.UID(pod, "node-a", "")
	}
	planned, _ := prepare.NewPlan(prepare.PlanInput{Pod: pod, UID: uid, Objects: load(t, text), Facts: testFacts, Settings: testSettings("/nowhere")})
	// The pod is converted to a checkpoint and back.
	data, err := planned.Checkpoint.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	c, err := manifest.Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return prepare.ExistingPod{ID: identity.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: uid}, Pod: c.Pod}
}

// TestRefusedMountIsToldOnce checks that admission reports a refused mount only once, with the
// field and the fix, and not also as a container that cannot be planned. podrun must print the plan
// nevertheless.
func TestRefusedMountIsToldOnce(t *testing.T) {
	t.Parallel()
	text := podText("web", "Always", "containers:",
		"- {name: app, image: registry.example/app:1, volumeMounts: [{name: d, mountPath: /d, readOnly: true, recursiveReadOnly: Enabled}]}",
		"- {name: fine, image: registry.example/app:1}", "volumes: [{name: d, emptyDir: {}}]")
	targets, problems := prepare.All(prepare.Input{Objects: load(t, text), HostState: prepare.HostState{Facts: testFacts}, Settings: testSettings("/nowhere")})
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
	unknown := prepare.ExistingPod{ID: identity.Pod{Namespace: "default", Name: "web", UID: "u-9"}}
	own := manifest.UID(load(t, text).Pods[0].Object, "node-a", "")
	for _, tc := range []struct {
		name string
		pod  string
		here []prepare.ExistingPod
		want prepare.Change
		// the UID of the pod, in place of the existing pod's; "" keeps the existing one
		uid  string
		old  int
		diff []string
	}{
		{name: "nothing here", pod: text, want: prepare.ChangeNew, uid: own},
		{name: "another pod here", pod: text, here: []prepare.ExistingPod{existingPod(t, other, "")}, want: prepare.ChangeNew, uid: own},
		{name: "the same file", pod: text, here: []prepare.ExistingPod{existingPod(t, text, "")}, want: prepare.ChangeUnchanged, uid: own},
		{name: "the same in other words", pod: same, here: []prepare.ExistingPod{existingPod(t, text, "")}, want: prepare.ChangeUnchanged, uid: own},
		{name: "an image", pod: image, here: []prepare.ExistingPod{existingPod(t, text, "")}, want: prepare.ChangeUpdate, uid: own,
			diff: []string{"spec.containers[0].image"}},
		{name: "an image, and back", pod: text, here: []prepare.ExistingPod{existingPod(t, image, own)}, want: prepare.ChangeUpdate, uid: own, diff: []string{"spec.containers[0].image"}},
		{name: "a command", pod: command, here: []prepare.ExistingPod{existingPod(t, text, "")}, want: prepare.ChangeReplace, old: 1},
		{name: "a pod whose checkpoint is gone", pod: text, here: []prepare.ExistingPod{unknown}, want: prepare.ChangeReplace, uid: own, old: 1},
		{name: "two of its name", pod: text, here: []prepare.ExistingPod{existingPod(t, text, ""), existingPod(t, command, "")}, want: prepare.ChangeReplace, uid: own, old: 2},
		{name: "a UID of its own", pod: withUID, want: prepare.ChangeNew, uid: "u-7"},
		{name: "the same UID of its own", pod: withUID, here: []prepare.ExistingPod{existingPod(t, withUID, "")}, want: prepare.ChangeUnchanged, uid: "u-7"},
		{name: "another UID of its own", pod: withUID, here: []prepare.ExistingPod{existingPod(t, withUID, "u-6")}, want: prepare.ChangeReplace, uid: "u-7", old: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := prepare.Compare(load(t, tc.pod).Pods[0].Object, prepare.Input{HostState: prepare.HostState{Existing: tc.here, Facts: testFacts}})
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
			if got.Change == prepare.ChangeUnchanged && len(got.Changes) > 0 {
				t.Errorf("%s with changes %v", got.Change, got.Changes)
			}
		})
	}
}
