package run

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
)

// replicas returns the pods of a workload in the given order, or pods without a workload if the kind is Pod.
func replicas(kind, strategy string, names ...string) (out []Known) {
	workload, _, _ := strings.Cut(names[0], "-")
	d := &manifest.Definition{Kind: kind, Workload: json.RawMessage(`{"metadata": {"name": "` + workload + `", "annotations": {"podrun.dev/replicas": "honour"}}, "spec": {` + strategy + `}}`)}
	if kind == "Pod" {
		d.Workload = nil
	}
	for _, name := range names {
		out = append(out, Known{ID: identity.Pod{Namespace: "default", Name: name}, Definition: d})
	}
	return out
}

// TestRollOut checks which pods a change replaces at the same time, and in which order. The rounds are
// separated by " / ".
func TestRollOut(t *testing.T) {
	web := []string{"web-2", "web", "web-10", "web-1"}
	for name, tc := range map[string]struct {
		pods []Known
		want string
	}{
		"one pod":                     {replicas("Pod", "", "a"), "a"},
		"pods":                        {replicas("Pod", "", "b", "a"), "b a"},
		"Deployment":                  {replicas("Deployment", "", web...), "web / web-1 / web-2 / web-10"},
		"maxUnavailable 2":            {replicas("Deployment", `"strategy": {"rollingUpdate": {"maxUnavailable": 2}}`, web...), "web web-1 / web-2 web-10"},
		"maxUnavailable 75%":          {replicas("Deployment", `"strategy": {"rollingUpdate": {"maxUnavailable": "75%"}}`, web...), "web web-1 web-2 / web-10"},
		"maxUnavailable 0":            {replicas("Deployment", `"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}`, web...), "web / web-1 / web-2 / web-10"},
		"Recreate":                    {replicas("Deployment", `"strategy": {"type": "Recreate"}`, web...), "web web-1 web-2 web-10"},
		"StatefulSet":                 {replicas("StatefulSet", "", web...), "web-10 / web-2 / web-1 / web"},
		"a workload without replicas": {replicas("DaemonSet", "", "agent", "agent-1"), "agent agent-1"},
		"two workloads":               {append(replicas("Deployment", "", "web", "web-1"), replicas("StatefulSet", "", "db", "db-1", "db-2")...), "db-2 / web db-1 / web-1 db"},
		"a workload and pods":         {append(replicas("Pod", "", "a", "b"), replicas("Deployment", "", "web", "web-1")...), "web / a b web-1"},
	} {
		var rounds []string
		for _, round := range rollOut(tc.pods) {
			var names []string
			for _, b := range round {
				for _, k := range b.pods {
					names = append(names, k.ID.Name)
				}
			}
			rounds = append(rounds, strings.Join(names, " "))
		}
		if got := strings.Join(rounds, " / "); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
