package sandbox

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/problem"
)

// securityContext returns the sandbox's security context. The sandbox's own process only waits, so
// it always has the runtime's default seccomp profile, regardless of the containers' profiles
// (issue 84623).
func securityContext(in Input) (*runtimeapi.LinuxSandboxSecurityContext, problem.List) {
	out := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaces(in.Pod, in.UserNS),
		Privileged:       anyPrivileged(&in.Pod.Spec),
		Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	sc := in.Pod.Spec.SecurityContext
	if sc == nil {
		sc = &corev1.PodSecurityContext{}
	}
	if sc.RunAsUser != nil {
		out.RunAsUser = &runtimeapi.Int64Value{Value: *sc.RunAsUser}
	}
	if sc.RunAsGroup != nil {
		out.RunAsGroup = &runtimeapi.Int64Value{Value: *sc.RunAsGroup}
	}
	if o := sc.SELinuxOptions; o != nil {
		out.SelinuxOptions = &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
	}
	if sc.FSGroup != nil {
		out.SupplementalGroups = append(out.SupplementalGroups, *sc.FSGroup)
	}
	out.SupplementalGroups = append(out.SupplementalGroups, in.ExtraGroups...)
	out.SupplementalGroups = append(out.SupplementalGroups, sc.SupplementalGroups...)

	var problems problem.List
	if sc.SupplementalGroupsPolicy != nil {
		v, ok := runtimeapi.SupplementalGroupsPolicy_value[string(*sc.SupplementalGroupsPolicy)]
		if !ok {
			problems = append(problems, problem.Problem{
				Object:  "Pod " + in.ID.String(),
				Field:   "spec.securityContext.supplementalGroupsPolicy",
				Reason:  "FieldValueNotSupported",
				Message: fmt.Sprintf("unsupported supplementalGroupsPolicy %q", *sc.SupplementalGroupsPolicy),
			})
		}
		out.SupplementalGroupsPolicy = runtimeapi.SupplementalGroupsPolicy(v)
	}
	return out, problems
}

// namespaces selects the mode of each namespace: shared with the host, shared by the containers of
// the pod, or separate for each container. CRI's zero value is POD for all namespaces, but the
// containers of a pod share a PID namespace only if the pod requests it.
func namespaces(pod *corev1.Pod, userNS *runtimeapi.UserNamespace) *runtimeapi.NamespaceOption {
	mode := func(node bool) runtimeapi.NamespaceMode {
		if node {
			return runtimeapi.NamespaceMode_NODE
		}
		return runtimeapi.NamespaceMode_POD
	}
	pid := mode(pod.Spec.HostPID)
	if share := pod.Spec.ShareProcessNamespace; !pod.Spec.HostPID && (share == nil || !*share) {
		pid = runtimeapi.NamespaceMode_CONTAINER
	}
	if userNS == nil {
		userNS = &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}
	}
	return &runtimeapi.NamespaceOption{
		Network: mode(pod.Spec.HostNetwork), Ipc: mode(pod.Spec.HostIPC), Pid: pid, UsernsOptions: userNS,
	}
}

// anyPrivileged reports whether a container of any kind is privileged. A runtime refuses a
// privileged container in a sandbox that is not privileged.
func anyPrivileged(spec *corev1.PodSpec) bool {
	privileged := func(sc *corev1.SecurityContext) bool {
		return sc != nil && sc.Privileged != nil && *sc.Privileged
	}
	byContainer := func(c corev1.Container) bool { return privileged(c.SecurityContext) }
	return slices.ContainsFunc(spec.InitContainers, byContainer) ||
		slices.ContainsFunc(spec.Containers, byContainer) ||
		slices.ContainsFunc(spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool {
			return privileged(c.SecurityContext)
		})
}
