package container

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// appArmor returns the container's AppArmor profile. It uses the first one that is set: the
// container's field, the deprecated annotation, or the pod's field. If none is set, it returns nil,
// and the runtime selects the profile.
func (s security) appArmor() (*runtimeapi.SecurityProfile, error) {
	profile := s.appArmorProfile()
	if profile == nil {
		return nil, nil
	}
	switch profile.Type {
	case corev1.AppArmorProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case corev1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case corev1.AppArmorProfileTypeLocalhost:
		if profile.LocalhostProfile == nil || *profile.LocalhostProfile == "" {
			return nil, fmt.Errorf("localhostProfile must be set if appArmorProfile type is Localhost")
		}
		return &runtimeapi.SecurityProfile{
			ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: *profile.LocalhostProfile,
		}, nil
	}
	return nil, fmt.Errorf("unknown AppArmor profile type %q", profile.Type)
}

func (s security) appArmorProfile() *corev1.AppArmorProfile {
	if sc := s.container.SecurityContext; sc != nil && sc.AppArmorProfile != nil {
		return sc.AppArmorProfile
	}
	text := s.in.Pod.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+s.container.Name]
	if name, ok := strings.CutPrefix(text, corev1.DeprecatedAppArmorBetaProfileNamePrefix); ok {
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	switch text {
	case corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}
	if sc := s.in.Pod.Spec.SecurityContext; sc != nil {
		return sc.AppArmorProfile
	}
	return nil
}

// oldAppArmor returns the profile in the format that runtimes used before the CRI had a message for
// profiles.
func oldAppArmor(profile *runtimeapi.SecurityProfile) string {
	switch {
	case profile == nil:
		return ""
	case profile.ProfileType == runtimeapi.SecurityProfile_RuntimeDefault:
		return corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case profile.ProfileType == runtimeapi.SecurityProfile_Localhost:
		return corev1.DeprecatedAppArmorBetaProfileNamePrefix + profile.LocalhostRef
	}
	return corev1.DeprecatedAppArmorBetaProfileNameUnconfined
}
