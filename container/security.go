package container

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/securitycontext"

	"github.com/podrun/podrun/internal/problem"
)

// maskedPaths and readonlyPaths are the paths in /proc and /sys that a container cannot read, or
// cannot write to, unless its procMount is Unmasked. The kubelet's lists come from moby. podrun
// also sends them for privileged containers, although the runtime then ignores them.
var (
	maskedPaths = []string{
		"/proc/asound",
		"/proc/acpi",
		"/proc/interrupts",
		"/proc/kcore",
		"/proc/keys",
		"/proc/latency_stats",
		"/proc/timer_list",
		"/proc/timer_stats",
		"/proc/sched_debug",
		"/proc/scsi",
		"/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{
		"/proc/bus",
		"/proc/fs",
		"/proc/irq",
		"/proc/sys",
		"/proc/sysrq-trigger",
	}
)

// security computes the security context of a container.
type security struct {
	in        *Input
	container *corev1.Container
}

func (p Plan) security() security { return security{&p.in, p.container} }

// securityContext returns the container's security context. The container's settings take
// precedence over the pod's. Config adds the image's user.
func (p Plan) securityContext() (*runtimeapi.LinuxContainerSecurityContext, problem.List) {
	var problems problem.List
	s := p.security()
	sc := securitycontext.DetermineEffectiveSecurityContext(p.in.Pod, p.container)
	out := &runtimeapi.LinuxContainerSecurityContext{
		Capabilities:     capabilities(sc.Capabilities),
		NamespaceOptions: p.in.Namespaces,
		NoNewPrivs:       securitycontext.AddNoNewPrivileges(sc),
		Privileged:       sc.Privileged != nil && *sc.Privileged,
		ReadonlyRootfs:   sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem,
	}
	if sc.ProcMount == nil || *sc.ProcMount != corev1.UnmaskedProcMount {
		out.MaskedPaths = slices.Concat(maskedPaths, p.in.ThermalPaths)
		out.ReadonlyPaths = slices.Clone(readonlyPaths)
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
	s.setGroups(out)
	var err error
	if out.Seccomp, err = s.seccomp(); err != nil {
		problems = append(problems, p.problem("securityContext.seccompProfile", reasonConfig, "%s", err))
	}
	if out.Apparmor, err = s.appArmor(); err != nil {
		problems = append(problems, p.problem("securityContext.appArmorProfile", reasonConfig, "%s", err))
	}
	// Older runtimes read only this deprecated field.
	out.ApparmorProfile = oldAppArmor(out.Apparmor)
	return out, problems
}

func capabilities(c *corev1.Capabilities) *runtimeapi.Capability {
	if c == nil {
		return nil
	}
	out := &runtimeapi.Capability{}
	for _, name := range c.Add {
		out.AddCapabilities = append(out.AddCapabilities, string(name))
	}
	for _, name := range c.Drop {
		out.DropCapabilities = append(out.DropCapabilities, string(name))
	}
	return out
}

// setGroups adds the pod's groups. The sandbox's plan reports an unknown policy.
func (s security) setGroups(out *runtimeapi.LinuxContainerSecurityContext) {
	if sc := s.in.Pod.Spec.SecurityContext; sc != nil {
		if sc.FSGroup != nil {
			out.SupplementalGroups = append(out.SupplementalGroups, *sc.FSGroup)
		}
		out.SupplementalGroups = append(out.SupplementalGroups, sc.SupplementalGroups...)
		if policy := sc.SupplementalGroupsPolicy; policy != nil {
			out.SupplementalGroupsPolicy = runtimeapi.SupplementalGroupsPolicy(runtimeapi.SupplementalGroupsPolicy_value[string(*policy)])
		}
	}
	out.SupplementalGroups = append(out.SupplementalGroups, s.in.ExtraGroups...)
}
