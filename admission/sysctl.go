package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/component-helpers/node/util/sysctl"

	"github.com/podrun/podrun/internal/problem"
)

// kernel is a version of the Linux kernel. It has a major and a minor number.
type kernel [2]int

// safeSysctls are the sysctls that every pod may set. They are namespaced and do not affect other
// pods. The value is the kernel version since which the sysctl is namespaced (kubelet v1.36,
// pkg/kubelet/sysctl).
var safeSysctls = map[string]kernel{
	"kernel.shm_rmid_forced":              {},
	"net.ipv4.ip_local_port_range":        {},
	"net.ipv4.tcp_syncookies":             {},
	"net.ipv4.ping_group_range":           {},
	"net.ipv4.ip_unprivileged_port_start": {},
	"net.ipv4.ip_local_reserved_ports":    {3, 16},
	"net.ipv4.tcp_keepalive_time":         {4, 5},
	"net.ipv4.tcp_fin_timeout":            {4, 6},
	"net.ipv4.tcp_keepalive_intvl":        {4, 5},
	"net.ipv4.tcp_keepalive_probes":       {4, 5},
	"net.ipv4.tcp_rmem":                   {4, 15},
	"net.ipv4.tcp_wmem":                   {4, 15},
}

// checkSysctls refuses sysctls that are neither safe nor in allowedUnsafeSysctls. It also refuses
// sysctls of a namespace that the pod shares with the host.
func checkSysctls(q question) problem.List {
	if q.pod.Spec.SecurityContext == nil {
		return nil
	}
	var out problem.List
	for i, s := range q.pod.Spec.SecurityContext.Sysctls {
		name := sysctl.NormalizeName(s.Name)
		why, hint := "", ""
		switch ns := sharedNamespace(q, name); {
		case !allowedSysctl(q, name):
			why = fmt.Sprintf("%q not allowlisted", name)
			hint = "allow it with --allowed-unsafe-sysctls=" + name
			if namespace, _, _ := sysctl.GetNamespace(name); namespace == sysctl.UnknownNamespace {
				hint = "the sysctl is not namespaced and would change the host"
			}
		case ns != "":
			why = fmt.Sprintf("%q not allowed with host %s enabled", name, ns)
			hint = "the sysctl would change the host"
		default:
			continue
		}
		out = append(out, problem.Problem{
			Field:  fmt.Sprintf("spec.securityContext.sysctls[%d].name", i),
			Reason: "SysctlForbidden", Message: "forbidden sysctl: " + why, Hint: hint,
		})
	}
	return out
}

// allowedSysctl reports whether a sysctl is safe, or whether the settings allow it. In the
// settings, name* is a prefix. The settings cannot allow sysctls that are not namespaced,
// because these would change the host.
func allowedSysctl(q question, name string) bool {
	if since, ok := safeSysctls[name]; ok && slices.Compare(kernelOf(q.facts.KernelVersion), since[:]) >= 0 {
		return true
	}
	for _, pattern := range q.settings.AllowedUnsafeSysctls {
		ns, allowed, isPrefix := sysctl.GetNamespace(pattern)
		if ns == sysctl.UnknownNamespace {
			continue
		}
		if allowed == name || isPrefix && strings.HasPrefix(name, allowed) {
			return true
		}
	}
	return false
}

// sharedNamespace returns the namespace of a sysctl if the pod shares this namespace with the host, otherwise "".
func sharedNamespace(q question, name string) sysctl.Namespace {
	ns, _, _ := sysctl.GetNamespace(name)
	if ns == sysctl.IPCNamespace && q.pod.Spec.HostIPC || ns == sysctl.NetNamespace && q.pod.Spec.HostNetwork {
		return ns
	}
	return ""
}

// kernelOf returns the major and minor version of a release such as 6.1.0-13-amd64. A part that
// is not a number counts as 0.
func kernelOf(release string) []int {
	out := []int{0, 0}
	for i, part := range strings.SplitN(release, ".", 3) {
		digits := strings.TrimRight(part, strings.TrimLeft(part, "0123456789"))
		if n, err := strconv.Atoi(digits); err == nil && i < len(out) {
			out[i] = n
		}
	}
	return out
}
