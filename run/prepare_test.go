package run

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/manifest"
)

// testFacts are as much of a host as planning needs.
var testFacts = host.Facts{NodeName: "node-a", Capacity: corev1.ResourceList{
	corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
}}

// hereOf is a pod that is here, as an earlier apply of the text planned it.
func hereOf(t *testing.T, text, uid string) Here {
	t.Helper()
	pod := load(t, text).Pods[0].Object
	if uid == "" {
		uid = manifest.UID(pod, "node-a")
	}
	planned, _ := NewPlan(Input{Pod: pod, UID: uid, Objects: load(t, text), Facts: testFacts, Settings: testSettings("/nowhere")})
	// By way of its checkpoint, as it is read.
	data, err := planned.Checkpoint.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	c, err := manifest.Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return Here{ID: identity.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: uid}, Pod: c.Pod}
}

// TestRefusedMountIsToldOnce: admission names the field and what to do; that the
// container can't be planned adds nothing. The plan is printed all the same.
func TestRefusedMountIsToldOnce(t *testing.T) {
	text := podText("web", "Always", "containers:",
		"- {name: app, image: registry.example/app:1, volumeMounts: [{name: d, mountPath: /d, readOnly: true, recursiveReadOnly: Enabled}]}",
		"- {name: fine, image: registry.example/app:1}", "volumes: [{name: d, emptyDir: {}}]")
	targets, problems := Prepare(PrepareInput{Objects: load(t, text), Facts: testFacts, Settings: testSettings("/nowhere")})
	var fields []string
	for _, p := range problems.Errors() {
		if strings.Contains(p.Field, "volumeMounts") {
			fields = append(fields, p.Field)
		}
	}
	if want := []string{"spec.containers[0].volumeMounts[0].recursiveReadOnly"}; !slices.Equal(fields, want) {
		t.Errorf("told of %q, want %q", fields, want)
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
	text := podText("web", "Always", "containers: [{name: app, image: registry.example/app:1, resources: {limits: {cpu: 1000m}}}]")
	same := podText("web", "Always", "containers:", "- resources: {requests: {cpu: '1'}, limits: {cpu: 1}}", "  image: registry.example/app:1", "  name: app")
	image := podText("web", "Always", "containers: [{name: app, image: registry.example/app:2, resources: {limits: {cpu: 1000m}}}]")
	command := podText("web", "Always", "containers: [{name: app, image: registry.example/app:1, command: [sh]}]")
	other := podText("db", "Always", "containers: [{name: app, image: registry.example/app:1}]")
	withUID := "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: u-7}\nspec: {containers: [{name: app, image: registry.example/app:1}]}\n"
	unknown := Here{ID: identity.Pod{Namespace: "default", Name: "web", UID: "u-9"}}
	own := manifest.UID(load(t, text).Pods[0].Object, "node-a")
	for _, tc := range []struct {
		name string
		pod  string
		here []Here
		want Change
		uid  string // empty: not the one that is here
		old  int
		diff []string
	}{
		{name: "nothing here", pod: text, want: ChangeNew, uid: own},
		{name: "another pod here", pod: text, here: []Here{hereOf(t, other, "")}, want: ChangeNew, uid: own},
		{name: "the same file", pod: text, here: []Here{hereOf(t, text, "")}, want: ChangeUnchanged, uid: own},
		{name: "the same in other words", pod: same, here: []Here{hereOf(t, text, "")}, want: ChangeUnchanged, uid: own},
		{name: "an image", pod: image, here: []Here{hereOf(t, text, "")}, want: ChangeUpdate, uid: own,
			diff: []string{"spec.containers[0].image"}},
		{name: "an image, and back", pod: text, here: []Here{hereOf(t, image, own)}, want: ChangeUpdate, uid: own, diff: []string{"spec.containers[0].image"}},
		{name: "a command", pod: command, here: []Here{hereOf(t, text, "")}, want: ChangeReplace, old: 1},
		{name: "a pod whose checkpoint is gone", pod: text, here: []Here{unknown}, want: ChangeReplace, uid: own, old: 1},
		{name: "two of its name", pod: text, here: []Here{hereOf(t, text, ""), hereOf(t, command, "")}, want: ChangeReplace, uid: own, old: 2},
		{name: "a UID of its own", pod: withUID, want: ChangeNew, uid: "u-7"},
		{name: "the same UID of its own", pod: withUID, here: []Here{hereOf(t, withUID, "")}, want: ChangeUnchanged, uid: "u-7"},
		{name: "another UID of its own", pod: withUID, here: []Here{hereOf(t, withUID, "u-6")}, want: ChangeReplace, uid: "u-7", old: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := change(load(t, tc.pod).Pods[0].Object, PrepareInput{Here: tc.here, Facts: testFacts})
			if got.Change != tc.want || len(got.Old) != tc.old {
				t.Errorf("%s of %d, want %s of %d", got.Change, len(got.Old), tc.want, tc.old)
			}
			if tc.uid != "" && got.uid != tc.uid {
				t.Errorf("uid %s, want %s", got.uid, tc.uid)
			}
			if tc.uid == "" && (got.uid == "" || got.uid == tc.here[0].ID.UID) {
				t.Errorf("uid %q", got.uid)
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
