package manifest

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/manifest/input"
)

const debuggable = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: app, image: "r.example/app:1"}
`

// TestEphemeralUpdate checks the rule of the API server's subresource ephemeralcontainers: an
// update may only add containers.
func TestEphemeralUpdate(t *testing.T) {
	const one, other = "  ephemeralContainers:\n  - {name: one, image: \"r.example/a:1\", targetContainerName: app}\n", "  - {name: two, image: \"r.example/a:1\"}\n"
	for _, c := range []struct {
		name, before, after string
		want                string // expected errors; "" means none
	}{
		{"none", "", "", ""},
		{"the first", "", one, ""},
		{"one more", one, one + other, ""},
		{"the same", one, one, ""},
		{"in another order", one + other, "  ephemeralContainers:\n" + other + strings.TrimPrefix(one, "  ephemeralContainers:\n"), ""},
		{"one less", one + other, one, `Forbidden: existing ephemeral containers "two" may not be removed`},
		{"another image", one, strings.Replace(one, "a:1", "a:2", 1), `Forbidden: existing ephemeral containers "one" may not be changed`},
		{"another target", one, strings.Replace(one, "Name: app", "Name: nosuch", 1), `Forbidden: existing ephemeral containers "one" may not be changed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := updatablePod(t, debuggable+c.before), debuggable+c.after
			if strings.Contains(c.after, "nosuch") {
				after = strings.Replace(after, "spec:\n", "spec:\n  initContainers: [{name: nosuch, image: i}]\n", 1)
				before = updatablePod(t, strings.Replace(debuggable+c.before, "spec:\n", "spec:\n  initContainers: [{name: nosuch, image: i}]\n", 1))
			}
			will := updatablePod(t, after)
			got := EphemeralErrors(before, will)
			if c.want == "" && len(got) > 0 || c.want != "" && !slices.Equal(got, []string{c.want}) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if in := InPlace(before, will); in != (c.want == "") {
				t.Errorf("InPlace = %t", in)
			}
		})
	}
}

// TestEphemeralBesideUpdate checks that podrun judges differences in other fields as in a pod
// without ephemeral containers.
func TestEphemeralBesideUpdate(t *testing.T) {
	before := updatablePod(t, debuggable)
	debug := &corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d", Image: "i"}}
	with := AddEphemeral(before, debug)
	if got := with.Spec.EphemeralContainers[0]; got.TerminationMessagePath == "" || got.ImagePullPolicy != corev1.PullAlways {
		t.Errorf("the container is not defaulted: %+v", got)
	}
	if again := AddEphemeral(with, debug); again != with {
		t.Errorf("the container is added twice: %+v", again.Spec.EphemeralContainers)
	}
	if before.Spec.EphemeralContainers != nil {
		t.Error("the original pod was changed")
	}
	for from, want := range map[string]bool{"r.example/app:1": true, "name: app,": false} {
		after := updatablePod(t, strings.Replace(debuggable, from, strings.Replace(from, "app", "new", 1), 1))
		if got := InPlace(with, KeepEphemeral(with, after)); got != want {
			t.Errorf("%s: InPlace = %t", from, got)
		}
	}
	if got := Changes(with, KeepEphemeral(with, before)); len(got) > 0 {
		t.Errorf("a manifest without them differs: %q", got)
	}
	if got := Changes(before, with); !slices.Equal(got, []string{"spec.ephemeralContainers"}) {
		t.Errorf("Changes = %q", got)
	}
}

// TestEphemeralInvalid checks that podrun refuses ephemeral containers that no API server
// accepts when it reads them.
func TestEphemeralInvalid(t *testing.T) {
	for text, want := range map[string]string{
		debuggable + "  ephemeralContainers: [{name: app, image: i}]\n":                                      "spec.ephemeralContainers[0].name",
		debuggable + "  ephemeralContainers: [{name: d, image: i, targetContainerName: nosuch}]\n":           "spec.ephemeralContainers[0].targetContainerName",
		debuggable + "  ephemeralContainers: [{name: d, image: i, ports: [{containerPort: 80}]}]\n":          "spec.ephemeralContainers[0].ports",
		debuggable + "  ephemeralContainers: [{name: d, image: i, livenessProbe: {exec: {command: [x]}}}]\n": "spec.ephemeralContainers[0].livenessProbe",
		strings.NewReplacer("v1", "apps/v1", "kind: Pod", "kind: Deployment", "spec:\n", "spec:\n  selector: {matchLabels: {a: b}}\n  template:\n   metadata: {labels: {a: b}}\n   spec:\n").Replace(
			strings.ReplaceAll(debuggable, "  containers:\n  -", "    containers:\n    -")) + "    ephemeralContainers: [{name: d, image: i}]\n": "ephemeral containers not allowed in pod template",
	} {
		_, problems := Load([]input.Source{{Name: "pod.yaml", Data: []byte(text)}}, Options{})
		if got := problems.Errors().String(); !strings.Contains(got, want) {
			t.Errorf("%s\ngot %s; want %s", text, got, want)
		}
	}
}
