package container

import (
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// seccomp returns the first seccomp profile that is set: the container's, the pod's, or the default
// of the node's settings. It refuses a Localhost profile without a name, because the container
// would run unconfined (CVE-2023-2431). It also refuses a profile outside the directory for
// profiles.
func (s security) seccomp() (*runtimeapi.SecurityProfile, error) {
	var profile *corev1.SeccompProfile
	if sc := s.in.Pod.Spec.SecurityContext; sc != nil {
		profile = sc.SeccompProfile
	}
	if sc := s.container.SecurityContext; sc != nil && sc.SeccompProfile != nil {
		profile = sc.SeccompProfile
	}
	if profile == nil {
		profile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		if s.in.Settings.SeccompDefault {
			profile.Type = corev1.SeccompProfileTypeRuntimeDefault
		}
	}
	switch profile.Type {
	case corev1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case corev1.SeccompProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case corev1.SeccompProfileTypeLocalhost:
		return s.localSeccomp(profile.LocalhostProfile)
	}
	return nil, fmt.Errorf("unknown seccomp profile type %q", profile.Type)
}

func (s security) localSeccomp(name *string) (*runtimeapi.SecurityProfile, error) {
	if name == nil || *name == "" {
		return nil, fmt.Errorf("localhostProfile must be set if seccompProfile type is Localhost")
	}
	dir := s.in.Layout.Seccomp()
	file := filepath.Join(dir, *name)
	if !strings.HasPrefix(file, dir+"/") {
		return nil, fmt.Errorf("localhostProfile %q must be a path below %s", *name, dir)
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: file}, nil
}
