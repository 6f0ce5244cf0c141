package cri

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// noSandboxPID is a substring of runc's error for a container that containerd created without knowing
// the PID of the sandbox. On a busy host, the sandbox's shim may not respond to containerd in time;
// containerd then uses the PID 0 for the namespaces that the container shares with the sandbox
// (containerd/containerd#9160).
const noSandboxPID = "namespace path: lstat /proc/0/ns/"

// NoSandboxPID reports whether StartContainer failed because the runtime did not know the PID of the
// sandbox when it created the container. Such a container can never start, but a new one can.
func NoSandboxPID(err error) bool {
	return err != nil && strings.Contains(err.Error(), noSandboxPID)
}

// FailedWithoutSandboxPID reports whether the runtime recorded a container as exited although the
// container never ran, because of the error that NoSandboxPID describes.
func FailedWithoutSandboxPID(st *runtimeapi.ContainerStatus) bool {
	return st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && st.GetReason() == "StartError" && strings.Contains(st.GetMessage(), noSandboxPID)
}
