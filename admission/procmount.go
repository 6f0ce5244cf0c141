package admission

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

// checkProcMount refuses `procMount: Unmasked` if the runtime is configured to mask /proc in all
// containers (containerd's disable_proc_mount). The API requires a user namespace for such a
// pod. checkUserNamespaces checks that the runtime supports user namespaces (KEP-4265).
func checkProcMount(q question) problem.List {
	if !q.facts.Runtime.NoProcMount {
		return nil
	}
	var out problem.List
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		if sc := c.SecurityContext; sc != nil && sc.ProcMount != nil && *sc.ProcMount == corev1.UnmaskedProcMount {
			out = append(out, problem.Problem{
				Field: field + ".securityContext.procMount", Reason: "ProcMountNotSupported",
				Message: "the runtime is configured to mask /proc in all containers", Hint: "set disable_proc_mount = false in containerd's CRI configuration",
			})
		}
	})
	return out
}
