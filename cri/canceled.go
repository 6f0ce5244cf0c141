package cri

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StartCanceled reports whether a container counts as ended although it never ran: the runtime
// canceled its start together with the process that asked for it, before the container's task
// existed. The exit code (128) and the reason (StartError) are those of a start that failed; the
// end of the message shows that the context of the request ended, or that the program which
// starts the shim was killed with it (containerd 1.6 to 2.4, StartContainer in pkg/cri/server,
// runtime/v2/shim). A canceled start of an existing task is not meant: its process may have run.
func StartCanceled(st *runtimeapi.ContainerStatus) bool {
	if st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || st.GetStartedAt() > 0 || st.GetReason() != "StartError" {
		return false
	}
	why, ok := strings.CutPrefix(strings.TrimSuffix(st.GetMessage(), ": unknown"), "failed to create containerd task: ")
	return ok && (strings.HasSuffix(why, ": context canceled") ||
		strings.HasPrefix(why, "failed to start shim: start failed: ") && strings.HasSuffix(why, ": signal: killed"))
}
