package cri

import "strings"

// noSandboxPID is a substring of runc's error for a container that containerd created without knowing
// the PID of the sandbox. On a busy host, the sandbox's shim may not respond to containerd in time;
// containerd then uses the PID 0 for the namespaces that the container shares with the sandbox
// (containerd/containerd#9160).
const noSandboxPID = "lstat /proc/0/ns/"

// NoSandboxPID reports whether a container failed to start because the runtime did not know the PID of
// the sandbox when it created the container. Such a container can never start, but a new one can.
func NoSandboxPID(err error) bool {
	return err != nil && strings.Contains(err.Error(), noSandboxPID)
}
