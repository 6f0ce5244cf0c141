package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/podrun/podrun/internal/problem"
)

// checkPrivileged refuses privileged containers if the settings do not allow them.
func checkPrivileged(q question) problem.List {
	if q.settings.AllowPrivileged {
		return nil
	}
	var out problem.List
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		if sc := c.SecurityContext; sc != nil && sc.Privileged != nil && *sc.Privileged {
			out = append(out, problem.Problem{
				Field: field + ".securityContext.privileged", Reason: "FieldValueForbidden",
				Message: "privileged containers are disallowed", Hint: "--allow-privileged=false is set on this host",
			})
		}
	})
	return out
}

// checkPodSecurity refuses pods that violate the level of the Pod Security Standards in the
// settings. It uses the latest version of the API server's checks.
func checkPodSecurity(q question) problem.List {
	if !q.enforces() {
		return nil
	}
	level := api.Level(q.settings.PodSecurity)
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err == nil && !level.Valid() {
		err = fmt.Errorf("privileged, baseline or restricted")
	}
	if err != nil {
		return list(invalidSetting("podSecurity", q.settings.PodSecurity, err))
	}
	var out problem.List
	for _, result := range checks.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &q.pod.ObjectMeta, &q.pod.Spec) {
		if result.Allowed {
			continue
		}
		message := fmt.Sprintf("violates PodSecurity %q: %s", level+":latest", result.ForbiddenReason)
		if result.ForbiddenDetail != "" {
			message += " (" + result.ForbiddenDetail + ")"
		}
		out = append(out, problem.Problem{Field: "spec", Reason: "PodSecurity", Message: message})
	}
	return out
}

// checkSELinux warns about SELinux options on a host without SELinux. Neither the kubelet
// nor a runtime refuses them.
func checkSELinux(q question) problem.List {
	if q.facts.SELinux {
		return nil
	}
	var out problem.List
	warn := func(field string, o *corev1.SELinuxOptions) {
		if o != nil {
			out = append(out, problem.Problem{Field: field + ".seLinuxOptions", Reason: "SELinux", Warning: true,
				Message: "this host has no SELinux: the options have no effect"})
		}
	}
	if sc := q.pod.Spec.SecurityContext; sc != nil {
		warn("spec.securityContext", sc.SELinuxOptions)
	}
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		if sc := c.SecurityContext; sc != nil {
			warn(field+".securityContext", sc.SELinuxOptions)
		}
	})
	return out
}
