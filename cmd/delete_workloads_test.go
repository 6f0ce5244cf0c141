package cmd

import (
	"testing"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
)

// TestReplicaRemovedByServe covers a replica that podrun serve removes after delete has marked its workload as
// deleted, and before delete searches for the pod. The pod is gone, as requested, so this is no error.
func TestReplicaRemovedByServe(t *testing.T) {
	f := &deleteFlags{deleted: []run.WorkloadRecord{{ID: identity.Pod{Namespace: "shop", Name: "api"}, Kind: "Deployment"}}}
	for id, missing := range map[identity.Pod]bool{
		{Namespace: "shop", Name: "api"}: false, {Namespace: "shop", Name: "api-1"}: false,
		{Namespace: "shop", Name: "web"}: true, {Namespace: "other", Name: "api"}: true,
	} {
		if err := f.missing(&app{}, run.Selector{Namespace: id.Namespace, Names: []string{id.Name}}); (err != nil) != missing {
			t.Errorf("%s: %v", id, err)
		}
	}
}
