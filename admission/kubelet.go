package admission

import (
	"fmt"

	"github.com/podrun/podrun/internal/problem"
)

// checkKubelet refuses pods if a kubelet on this host uses the same runtime or the same cgroup
// root. The kubelet would remove podrun's pods or their cgroups.
func checkKubelet(q question) problem.List {
	k := q.facts.Kubelet
	if k == nil || q.options.AllowKubelet {
		return nil
	}
	what, hint := "", ""
	switch {
	case k.SharesRuntime:
		what, hint = "the same runtime and would remove the pod", "stop the kubelet, use another runtime, or accept the risk with --allow-kubelet"
	case k.SharesCgroups && q.settings.CgroupsPerQOS && sameRoot(k.CgroupRoot, q.settings.CgroupRoot):
		what, hint = "the same cgroup root and would remove the pod's cgroup", "set a separate --cgroup-root for podrun, or accept the risk with --allow-kubelet"
	default:
		return nil
	}
	return list(problem.Problem{
		Reason:  "KubeletRunning",
		Message: fmt.Sprintf("a kubelet on this host (process %d) uses %s", k.PID, what),
		Hint:    hint,
	})
}
