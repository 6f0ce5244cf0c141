package grammar

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The profiles of `kubectl debug` (k8s.io/kubectl/pkg/cmd/debug), as they apply to ephemeral containers.
const (
	ProfileGeneral    = "general"
	profileBaseline   = "baseline"
	profileRestricted = "restricted"
	profileNetadmin   = "netadmin"
	profileSysadmin   = "sysadmin"
)

var DebugProfiles = []string{ProfileGeneral, profileBaseline, profileRestricted, profileNetadmin, profileSysadmin}

// DebugProfile returns the security context of a profile, or nil if the profile has none.
// The error for an unknown profile lists the known ones.
func DebugProfile(name string) (*corev1.SecurityContext, error) {
	yes, no := true, false
	switch name {
	case ProfileGeneral:
		return &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_PTRACE"}}}, nil
	case profileBaseline:
		return nil, nil
	case profileRestricted:
		return &corev1.SecurityContext{
			RunAsNonRoot:             &yes,
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			AllowPrivilegeEscalation: &no,
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}, nil
	case profileNetadmin:
		return &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN", "NET_RAW"}}}, nil
	case profileSysadmin:
		return &corev1.SecurityContext{Privileged: &yes}, nil
	}
	return nil, fmt.Errorf("--profile=%s is not one of %s", name, strings.Join(DebugProfiles, ", "))
}
