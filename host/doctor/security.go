package doctor

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

func seccomp(in Input) Finding {
	switch {
	case !in.Checkup.Seccomp:
		return Finding{Check: "seccomp", Status: Warn, Summary: "the kernel does not support seccomp: containers with a profile fail to start",
			Fix: "use a kernel with CONFIG_SECCOMP_FILTER"}
	case in.Settings.SeccompDefault:
		return pass("seccomp", "enabled; containers without a profile get RuntimeDefault")
	}
	return pass("seccomp", "enabled; containers without a profile are unconfined, as with a kubelet by default; --seccomp-default gives them RuntimeDefault")
}

func appArmor(in Input) Finding {
	switch {
	case !in.Facts.AppArmor:
		return pass("apparmor", "not enabled: podrun refuses pods with a profile")
	case in.Checkup.Programs["apparmor_parser"] == "":
		fix := install(in.Checkup, "apparmor")
		if fix == "" {
			fix = "install apparmor_parser"
		}
		return Finding{Check: "apparmor", Status: Warn, Summary: "enabled, but apparmor_parser is missing: runtimes cannot load their default profile", Fix: fix}
	case in.Facts.AppArmorProfiles == nil:
		return pass("apparmor", "enabled; the list of loaded profiles is not readable")
	}
	return pass("apparmor", "enabled, %d profiles loaded", len(in.Facts.AppArmorProfiles))
}

func seLinux(in Input) Finding {
	if in.Facts.SELinux {
		return pass("selinux", "enabled")
	}
	return pass("selinux", "not enabled: seLinuxOptions have no effect")
}

// idMapped is the first Linux version that maps the IDs of tmpfs (KEP-127). A pod with a user
// namespace needs this for secrets and similar volumes.
var idMapped = version.MustParseGeneric("6.3.0")

// userNamespaces reports why pods with hostUsers: false cannot run on this host.
func userNamespaces(in Input) Finding {
	limit, known := in.Checkup.Sysctls["user.max_user_namespaces"]
	able := func(h host.RuntimeHandler) bool { return h.UserNamespaces }
	var have []host.RuntimeHandler
	for _, h := range in.Facts.Runtime.Handlers {
		have = append(have, h)
	}
	kernel, err := version.ParseGeneric(in.Facts.KernelVersion)
	switch {
	case !known || limit == 0:
		return Finding{Check: "user-namespaces", Status: Pass, Summary: "disabled in the kernel: pods with hostUsers: false cannot run on this host",
			Fix: "sysctl -w user.max_user_namespaces=15000"}
	case in.down():
		return Finding{Check: "user-namespaces", Status: Skip, Summary: "the runtime does not answer"}
	case !slices.ContainsFunc(have, able) && in.Settings.UserNamespaces == nodeconfig.UserNamespacesPrefer:
		return Finding{Check: "user-namespaces", Status: Warn, Summary: "not supported by the runtime: userNamespaces: prefer has no effect, and pods with hostUsers: false are refused",
			Fix: "containerd 2.0 or CRI-O 1.25, with runc 1.2 or crun 1.9"}
	case !slices.ContainsFunc(have, able):
		return Finding{Check: "user-namespaces", Status: Pass, Summary: "not supported by the runtime: pods with hostUsers: false are refused",
			Fix: "containerd 2.0 or CRI-O 1.25, with runc 1.2 or crun 1.9"}
	case err == nil && !kernel.AtLeast(idMapped):
		return Finding{Check: "user-namespaces", Status: Warn, Summary: fmt.Sprintf("Linux %s does not support ID-mapped tmpfs mounts: pods with hostUsers: false cannot mount Secrets", in.Facts.KernelVersion),
			Fix: "Linux 6.3"}
	}
	return pass("user-namespaces", "supported by the kernel and the runtime")
}
