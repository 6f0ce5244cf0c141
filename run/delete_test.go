package run

import (
	"strings"
	"testing"

	"github.com/podrun/podrun/run/lookup"
)

// TestReplicaRemovedByServe covers a replica that podrun serve removes after Delete has marked its workload as
// deleted, and before Delete searches for the pod. The pod is gone, as requested, so this is no error.
func TestReplicaRemovedByServe(t *testing.T) {
	for name, missing := range map[string]bool{"shop/api": false, "shop/api-1": false, "shop/web": true, "other/api": true} {
		d := &deletion{gone: map[object]bool{{"shop", lookup.Ref{Kind: "Deployment", Name: "api"}}: true}}
		namespace, pod, _ := strings.Cut(name, "/")
		if d.podMissing(namespace, pod); (d.missing != nil) != missing {
			t.Errorf("%s: %v", name, d.missing)
		}
	}
}
