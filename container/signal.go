package container

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stopSignal is the signal that the container is asked to end with (KEP-4960,
// gate ContainerStopSignals); RUNTIME_DEFAULT leaves it to the image. The real-time
// signals are written SIGRTMIN+1 in the API and SIGRTMINPLUS1 in CRI.
func stopSignal(c *corev1.Container) runtimeapi.Signal {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_RUNTIME_DEFAULT
	}
	name := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(*c.Lifecycle.StopSignal))
	return runtimeapi.Signal(runtimeapi.Signal_value[name])
}
