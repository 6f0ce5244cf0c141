package serve

import (
	"testing"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/serve/nodeapi"
	"github.com/podrun/podrun/serve/source"
)

// TestReadsFile: a supervisor reads the files of its sources, but not those of a directory that was removed from them.
func TestReadsFile(t *testing.T) {
	if from := source.Shown(source.APIServerPath(identity.Pod{Namespace: "shop", Name: "web"})); from != "API server/shop/web" || !OfAPIServer(from) {
		t.Errorf("a pod of an API server comes from %q", from)
	}
	sources := []SourceState{{Name: "/etc/podrun/manifests"}, {Name: "https://pods.example/site.yaml"}, {Name: "/srv/one.yaml"}, {Name: "/srv/old", State: nodeapi.RemovedSource}}
	for path, want := range map[string]bool{
		"/etc/podrun/manifests/web.yaml": true, "https://pods.example/site.yaml": true, "/srv/one.yaml": true,
		"/srv/other.yaml": false, "/srv/old/web.yaml": false, "/etc/podrun/manifests/old/web.yaml": false, "https://pods.example/other.yaml": false,
	} {
		if readsFile(sources, path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}
