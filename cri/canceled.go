package cri

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StartCanceled reports whether the runtime marked a container as exited although it never ran: the
// process that requested the start was killed, and the runtime canceled the start before the
// container's task existed. The exit code (128) and the reason (StartError) are those of a failed
// start; the end of the message shows that the request's context ended, or that the end of the
// context killed the program that starts the shim (containerd 1.6 to 2.4, StartContainer in
// pkg/cri/server, runtime/v2/shim). StartCanceled returns false for a canceled start of an existing
// task, because its process may have run.
func StartCanceled(st *runtimeapi.ContainerStatus) bool {
	if st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || st.GetStartedAt() > 0 || st.GetReason() != "StartError" {
		return false
	}
	why, ok := strings.CutPrefix(strings.TrimSuffix(st.GetMessage(), ": unknown"), "failed to create containerd task: ")
	return ok && (strings.HasSuffix(why, ": context canceled") ||
		strings.HasPrefix(why, "failed to start shim: start failed: ") && strings.HasSuffix(why, ": signal: killed"))
}
