package admission

import (
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/internal/problem"
)

// checkMinMemory refuses a memory limit below the runtime's minimum. CRI-O fails to create such
// a container (container_min_memory, internal/config/cgmgr/cgmgr_linux.go), and the kubelet
// retries forever. For both the kubelet and CRI-O (VerifyMemoryIsEnough), a limit of 0 means no
// limit.
func checkMinMemory(q question) problem.List {
	least := q.facts.Runtime.MinMemory[q.handler]
	if least == 0 {
		return nil
	}
	var out problem.List
	check := func(list []corev1.Container, field string) {
		for i := range list {
			limit, set := list[i].Resources.Limits[corev1.ResourceMemory]
			if !set || limit.IsZero() || limit.Value() >= least {
				continue
			}
			handler := "of the default runtime"
			if q.handler != "" {
				handler = "of runtime " + q.handler
			}
			out = append(out, problem.Problem{
				Field: fmt.Sprintf("spec.%s[%d].resources.limits.memory", field, i), Reason: "MemoryLimitTooLow",
				Message: fmt.Sprintf("%s does not create containers with a memory limit of %s: the minimum is %s", runtimeName(q), limit.String(), resource.NewQuantity(least, resource.BinarySI)),
				Hint:    "increase the limit, or decrease container_min_memory " + handler + " in [crio.runtime.runtimes]",
			})
		}
	}
	check(q.pod.Spec.InitContainers, "initContainers")
	check(q.pod.Spec.Containers, "containers")
	return out
}

// checkLoopbackPorts warns about host ports on a loopback address if the runtime is CRI-O. CRI-O
// forwards only connections to other addresses.
func checkLoopbackPorts(q question) problem.List {
	if !q.facts.Runtime.IsCRIO() || q.pod.Spec.HostNetwork {
		return nil
	}
	var out problem.List
	for i := range q.pod.Spec.Containers {
		for j, port := range q.pod.Spec.Containers[i].Ports {
			if ip := net.ParseIP(port.HostIP); port.HostPort == 0 || ip == nil || !ip.IsLoopback() {
				continue
			}
			out = append(out, problem.Problem{
				Field: fmt.Sprintf("spec.containers[%d].ports[%d].hostIP", i, j), Reason: "HostPortOnLoopback", Warning: true,
				Message: fmt.Sprintf("host port %d on %s cannot be reached: CRI-O does not serve host ports on loopback addresses", port.HostPort, port.HostIP),
				Hint:    "use 'podrun port-forward', hostNetwork, or another hostIP",
			})
		}
	}
	return out
}
