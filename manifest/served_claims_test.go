package manifest

import (
	"testing"

	"github.com/podrun/podrun/manifest/input"
)

// TestServedClaimsApart covers two claims such as a-b/c and a/b-c: if their namespaces and
// names are joined, the texts are equal. The claims must have different volumes. These must not
// be volumes of the input.
func TestServedClaimsApart(t *testing.T) {
	pod := func(namespace, claim string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: " + namespace + "}\nspec:\n" +
			"  containers: [{name: web, image: web}]\n  volumes: [{name: data, persistentVolumeClaim: {claimName: " + claim + "}}]\n---\n"
	}
	const volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pvc-a-b-c}\nspec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /input}}\n"
	o, problems := Load([]input.Source{{Name: "test.yaml", Data: []byte(pod("a-b", "c") + pod("a", "b-c") + volume)}}, Options{})
	if errs := problems.Errors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	if unused := o.ServeClaims(map[string]string{"c": "/one", "b-c": "/two"}); len(unused) > 0 {
		t.Fatalf("no pod uses %q", unused)
	}
	for claim, want := range map[string]string{"a-b/c": "/one", "a/b-c": "/two"} {
		pv := o.Volumes[o.Claims[claim].Spec.VolumeName]
		if pv == nil || pv.Spec.Local == nil || pv.Spec.Local.Path != want {
			t.Errorf("the volume of %s is %+v, want %s", claim, pv, want)
		}
	}
	if pv := o.Volumes["pvc-a-b-c"]; pv == nil || pv.Spec.HostPath == nil {
		t.Errorf("the volume of the input is %+v", pv)
	}
}
