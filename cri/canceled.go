package cri

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// canceledStartTexts are parts of the messages of containers of which containerd canceled the
// start, because the client that had asked for it was killed: by the end of the request's
// context, or by killing the shim that it had started with this context (containerd 1.6 to
// 2.4, StartContainer in pkg/cri/server, runtime/v2/shim).
var canceledStartTexts = []string{"context canceled", "failed to start shim: start failed: : signal: killed"}

// StartCanceled reports whether a container counts as ended although it never ran: the runtime
// canceled its start together with the process that asked for it. The exit code (128) and the
// reason (StartError) are those of a start that failed.
func StartCanceled(st *runtimeapi.ContainerStatus) bool {
	if st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || st.GetStartedAt() > 0 || st.GetReason() != "StartError" {
		return false
	}
	for _, text := range canceledStartTexts {
		if strings.Contains(st.GetMessage(), text) {
			return true
		}
	}
	return false
}
