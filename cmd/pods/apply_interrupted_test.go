package pods

import (
	"testing"

	"github.com/podrun/podrun/internal/identity"
)

func TestKeptHint(t *testing.T) {
	web, db := identity.Pod{Namespace: "default", Name: "web"}, identity.Pod{Namespace: "default", Name: "db"}
	staging := identity.Pod{Namespace: "staging", Name: "web"}
	for name, tc := range map[string]struct {
		kept  []identity.Pod
		files []string
		want  string
	}{
		"a file":               {[]identity.Pod{web}, []string{"-f", "web pod.yaml"}, "the pod remains: run the command again to continue its start, 'podrun get web' to show it, or 'podrun delete -f 'web pod.yaml'' to remove it"},
		"standard input":       {[]identity.Pod{web}, nil, "the pod remains: run the command again to continue its start, 'podrun get web' to show it, or 'podrun delete web' to remove it"},
		"a namespace":          {[]identity.Pod{staging}, []string{"-k", "prod"}, "the pod remains: run the command again to continue its start, 'podrun get web -n staging' to show it, or 'podrun delete -k prod -n staging' to remove it"},
		"several pods":         {[]identity.Pod{web, db}, nil, "the pods remain: run the command again to continue their start, 'podrun get web db' to show them, or 'podrun delete web db' to remove them"},
		"several namespaces":   {[]identity.Pod{web, staging}, []string{"-f", "all.yaml"}, "the pods remain: run the command again to continue their start, 'podrun get -A' to show them, or 'podrun delete -f all.yaml' to remove them"},
		"namespaces of a pipe": {[]identity.Pod{web, staging}, nil, "the pods remain: run the command again to continue their start, 'podrun get -A' to show them, or 'podrun delete NAME -n NAMESPACE' to remove them"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := keptHint(tc.kept, tc.files); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
