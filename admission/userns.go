package admission

import (
	"fmt"

	"github.com/podrun/podrun/internal/problem"
)

// checkUserNamespaces refuses `hostUsers: false` if the runtime handler does not advertise user
// namespaces. containerd 1.6 accepts the request but ignores it.
func checkUserNamespaces(q question) problem.List {
	if q.pod.Spec.HostUsers == nil || *q.pod.Spec.HostUsers || q.facts.Runtime.Handlers[q.handler].UserNamespaces {
		return nil
	}
	return list(problem.Problem{
		Field: "spec.hostUsers", Reason: "UserNamespacesNotSupported",
		Message: fmt.Sprintf("%s does not support user namespaces", runtimeName(q)),
		Hint:    "requires containerd 2.0 or CRI-O 1.25, with runc 1.2 or crun 1.9",
	})
}
