package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

// checkAppArmor refuses a pod with an AppArmor profile if the host does not have AppArmor, because nothing would
// enforce the profile.
func checkAppArmor(q question) problem.List {
	field := appArmorField(q.pod)
	if field == "" || q.facts.AppArmor {
		return nil
	}
	return list(problem.Problem{
		Field: field, Reason: "AppArmor",
		Message: "Cannot enforce AppArmor: AppArmor is not enabled on the host",
		Hint:    "enable AppArmor in the kernel, or set the type Unconfined",
	})
}

// appArmorField returns the path of the pod's first field that sets an AppArmor profile. It
// returns "" if there is none.
func appArmorField(pod *corev1.Pod) string {
	if sc := pod.Spec.SecurityContext; sc != nil && confines(sc.AppArmorProfile) {
		return "spec.securityContext.appArmorProfile"
	}
	found := ""
	eachContainer(pod, func(field string, c *corev1.Container) {
		if found == "" && c.SecurityContext != nil && confines(c.SecurityContext.AppArmorProfile) {
			found = field + ".securityContext.appArmorProfile"
		}
	})
	if found != "" {
		return found
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) &&
			pod.Annotations[key] != corev1.DeprecatedAppArmorBetaProfileNameUnconfined {
			return "metadata.annotations[" + key + "]"
		}
	}
	return ""
}

func confines(p *corev1.AppArmorProfile) bool {
	return p != nil && p.Type != corev1.AppArmorProfileTypeUnconfined
}

// checkAppArmorLoaded refuses Localhost profiles that the kernel has not loaded: the runtime
// would fail to create the container.
func checkAppArmorLoaded(q question) problem.List {
	if !q.facts.AppArmor || q.facts.AppArmorProfiles == nil {
		return nil
	}
	var out problem.List
	look := func(field string, p *corev1.AppArmorProfile) {
		if p == nil || p.Type != corev1.AppArmorProfileTypeLocalhost || p.LocalhostProfile == nil ||
			slices.Contains(q.facts.AppArmorProfiles, *p.LocalhostProfile) {
			return
		}
		out = append(out, problem.Problem{
			Field: field + ".appArmorProfile.localhostProfile", Reason: "AppArmor",
			Message: fmt.Sprintf("Cannot enforce AppArmor: profile %q is not loaded", *p.LocalhostProfile),
			Hint:    "load the profile with apparmor_parser",
		})
	}
	if sc := q.pod.Spec.SecurityContext; sc != nil {
		look("spec.securityContext", sc.AppArmorProfile)
	}
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		if sc := c.SecurityContext; sc != nil {
			look(field+".securityContext", sc.AppArmorProfile)
		}
	})
	return out
}
