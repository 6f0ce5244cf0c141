package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

// checkSeccomp refuses Localhost profiles that are missing or that cannot be parsed. Otherwise
// the runtime would create the sandbox and then fail to create the container.
func checkSeccomp(q question) problem.List {
	var out problem.List
	eachSeccomp(q.pod, func(field string, p *corev1.SeccompProfile) {
		if p == nil || p.Type != corev1.SeccompProfileTypeLocalhost || p.LocalhostProfile == nil {
			return
		}
		if wrong := q.facts.SeccompProfiles[*p.LocalhostProfile]; wrong != "" {
			out = append(out, problem.Problem{
				Field: field + ".localhostProfile", Reason: "CreateContainerError",
				Message: fmt.Sprintf("cannot load seccomp profile %q: %s", *p.LocalhostProfile, wrong),
				Hint:    "put the profile below " + q.settings.Layout().Seccomp(),
			})
		}
	})
	return out
}

// SeccompProfiles returns the Localhost profiles to which a pod refers.
func SeccompProfiles(pod *corev1.Pod) []string {
	var out []string
	eachSeccomp(pod, func(_ string, p *corev1.SeccompProfile) {
		if p != nil && p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil && *p.LocalhostProfile != "" {
			out = append(out, *p.LocalhostProfile)
		}
	})
	return out
}

func eachSeccomp(pod *corev1.Pod, visit func(field string, p *corev1.SeccompProfile)) {
	if sc := pod.Spec.SecurityContext; sc != nil {
		visit("spec.securityContext.seccompProfile", sc.SeccompProfile)
	}
	eachContainer(pod, func(field string, c *corev1.Container) {
		if sc := c.SecurityContext; sc != nil {
			visit(field+".securityContext.seccompProfile", sc.SeccompProfile)
		}
	})
}
