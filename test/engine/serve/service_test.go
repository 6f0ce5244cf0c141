package serve

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/servicesync"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestServeRestoresAServiceOfAFile checks that serve records a Service again as soon as a command has deleted it,
// because a file still defines it. The interval between two reads of the directories is longer than the test.
func TestServeRestoresAServiceOfAFile(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	dir := rig.DirWith(t, "web.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: ExternalName, externalName: 192.0.2.7}\n")
	rig.API(t, r, serve.Options{Dirs: []string{dir}, Relist: time.Hour, Manifest: manifest.Options{Services: true}})
	exists := func() bool {
		list, err := servicesync.List(t.Context(), r.Engine(), "default")
		return err == nil && len(list) == 1
	}
	rig.Eventually(t, "the Service is recorded", exists)
	for range 3 {
		changes, err := run.DeleteServices(t.Context(), r.Engine(), func(s *corev1.Service, _ string) bool { return s.Name == "web" })
		if err != nil || len(changes) != 1 || changes[0] != (servicesync.Change{Namespace: "default", Name: "web", Outcome: "deleted"}) {
			t.Fatalf("delete: %+v, %v", changes, err)
		}
		rig.Eventually(t, "the Service is recorded again", exists)
	}
}
