package doctor

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/podrun/podrun/host"
)

func seccomp(in Input) Finding {
	switch {
	case !in.Checkup.Seccomp:
		return Finding{Check: "seccomp", Status: Warn, Summary: "the kernel has no seccomp: profiles can't be enforced, and containers with one fail",
			Fix: "a kernel with CONFIG_SECCOMP_FILTER"}
	case in.Settings.SeccompDefault:
		return pass("seccomp", "the kernel has it; containers that set no profile get RuntimeDefault")
	}
	return pass("seccomp", "the kernel has it; containers that set no profile are unconfined, as with a kubelet (--seccomp-default)")
}

func appArmor(in Input) Finding {
	switch {
	case !in.Facts.AppArmor:
		return pass("apparmor", "not enabled: pods that ask for a profile are refused")
	case in.Checkup.Programs["apparmor_parser"] == "":
		fix := install(in.Checkup, "apparmor")
		if fix == "" {
			fix = "install apparmor_parser"
		}
		return Finding{Check: "apparmor", Status: Warn, Summary: "enabled, but apparmor_parser is missing: runtimes can't load their default profile", Fix: fix}
	case in.Facts.AppArmorProfiles == nil:
		return pass("apparmor", "enabled; which profiles are loaded can't be read")
	}
	return pass("apparmor", "enabled, %d profiles loaded", len(in.Facts.AppArmorProfiles))
}

func seLinux(in Input) Finding {
	if in.Facts.SELinux {
		return pass("selinux", "enabled")
	}
	return pass("selinux", "not enabled: seLinuxOptions do nothing")
}

// idMapped is since when Linux maps the IDs of tmpfs, which secrets and the like
// are on, for a pod with a user namespace (KEP-127).
var idMapped = version.MustParseGeneric("6.3.0")

// userNamespaces tells what keeps pods with hostUsers: false from running here.
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
		return Finding{Check: "user-namespaces", Status: Pass, Summary: "the kernel gives none: pods with hostUsers: false can't run here",
			Fix: "sysctl -w user.max_user_namespaces=15000"}
	case in.down():
		return Finding{Check: "user-namespaces", Status: Skip, Summary: "the runtime does not answer"}
	case !slices.ContainsFunc(have, able):
		return Finding{Check: "user-namespaces", Status: Pass, Summary: "the runtime does not advertise them: pods with hostUsers: false are refused",
			Fix: "containerd 2.0 or CRI-O 1.25, with runc 1.2 or crun 1.9"}
	case err == nil && !kernel.AtLeast(idMapped):
		return Finding{Check: "user-namespaces", Status: Warn, Summary: fmt.Sprintf("Linux %s does not map the IDs of tmpfs: pods with hostUsers: false can't mount Secrets", in.Facts.KernelVersion),
			Fix: "Linux 6.3"}
	}
	return pass("user-namespaces", "the kernel and the runtime have them")
}
