package cri

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StartCanceled reports whether the runtime recorded a container as exited although the container
// never ran. This happens if the process that requested the start is killed: the runtime then
// cancels the start before the container's task exists. The exit code (128) and the reason
// (StartError) are those of a failed start. Only the end of the message distinguishes a canceled
// start: it says that the request's context ended, or that the runtime killed the program that
// starts the shim for this reason (containerd 1.6 to 2.4, StartContainer in pkg/cri/server,
// runtime/v2/shim). If the runtime canceled the start of an existing task, StartCanceled returns
// false, because the task's process may have run.
func StartCanceled(st *runtimeapi.ContainerStatus) bool {
	if st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || st.GetStartedAt() > 0 || st.GetReason() != "StartError" {
		return false
	}
	why, ok := strings.CutPrefix(strings.TrimSuffix(st.GetMessage(), ": unknown"), "failed to create containerd task: ")
	return ok && (why == "context canceled" || strings.HasSuffix(why, ": context canceled") ||
		strings.HasPrefix(why, "failed to start shim: start failed: ") && strings.HasSuffix(why, ": signal: killed"))
}
