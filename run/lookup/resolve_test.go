package lookup

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/store"
)

// TestResolve checks that the name of a workload refers to a pod only if a workload of this kind
// defines the pod. If a pod has no recorded definition, any kind is accepted, as in the releases that
// did not record definitions.
func TestResolve(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	for name, kind := range map[string]string{"web": "Deployment", "plain": "Pod", "old": ""} {
		id := identity.Pod{Namespace: "default", Name: name, UID: "uid-" + name}
		c := manifest.Checkpoint{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: name}}}
		if kind != "" {
			c.Definition = &manifest.Definition{Kind: kind}
		}
		if err := os.MkdirAll(string(layout.Pod(id.UID)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := store.WriteCheckpoint(layout, id, c); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		ref       Ref
		namespace string
		err       string
	}{
		{ref: Ref{Kind: "Deployment", Name: "web"}},
		{ref: Ref{Name: "web"}},
		{ref: Ref{Kind: "Pod", Name: "web"}},
		{ref: Ref{Kind: "Job", Name: "web"}, err: "job web: not found"},
		{ref: Ref{Kind: "Deployment", Name: "plain"}, err: "deployment plain: not found"},
		{ref: Ref{Name: "plain"}},
		{ref: Ref{Kind: "Deployment", Name: "old"}},
		{ref: Ref{Kind: "Deployment", Name: "none"}}, // the command reports the missing pod
		{ref: Ref{Kind: "Job", Name: "web"}, namespace: "other"},
	} {
		for _, namespace := range []string{"default", ""} {
			if test.namespace != "" {
				namespace = test.namespace
			}
			name, err := test.ref.Resolve(layout, namespace)
			switch {
			case test.err == "" && (err != nil || name != test.ref.Name):
				t.Errorf("%s in namespace %q: %q, %v", test.ref, namespace, name, err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("%s in namespace %q: %q, %v; want %s", test.ref, namespace, name, err, test.err)
			}
		}
	}
}
