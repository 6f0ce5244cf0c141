package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

// checkIgnored warns about fields that have an effect in a cluster but none with podrun, so that
// podrun ignores no field silently. It does not warn about fields that a kubelet does not read
// either, or that have no effect on a single host. docs/pod-fields.md lists them.
func checkIgnored(q question) problem.List {
	var out problem.List
	warn := func(field, message string) {
		out = append(out, problem.Problem{Field: field, Reason: "Ignored", Warning: true, Message: message})
	}
	spec := &q.pod.Spec
	if !q.ofCluster {
		withoutControlPlane(spec, warn)
	}
	for i, c := range spec.InitContainers {
		for j, p := range c.Ports {
			if p.HostPort != 0 && !spec.HostNetwork {
				warn(fmt.Sprintf("spec.initContainers[%d].ports[%d].hostPort", i, j), fmt.Sprintf("host port %d has no effect: podrun forwards ports of app containers only, as the kubelet does", p.HostPort))
			}
		}
	}
	out = append(out, unmeasured(q)...)
	return append(out, windows(q)...)
}

// withoutControlPlane warns about fields that the scheduler or controllers of a cluster process.
func withoutControlPlane(spec *corev1.PodSpec, warn func(field, message string)) {
	for i, g := range spec.SchedulingGates {
		warn(fmt.Sprintf("spec.schedulingGates[%d]", i), fmt.Sprintf("podrun does not wait for the gate %q: the pod starts immediately", g.Name))
	}
	for i, g := range spec.ReadinessGates {
		warn(fmt.Sprintf("spec.readinessGates[%d]", i), fmt.Sprintf("no controller sets the condition %q: the pod will not be Ready", g.ConditionType))
	}
	if spec.SchedulingGroup != nil {
		warn("spec.schedulingGroup", "there is no scheduler: podrun starts the pod without waiting for the other pods of its group")
	}
	if a := spec.Affinity; a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		warn("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution", "there is no scheduler: podrun starts the pod without checking which other pods run on this host")
	}
	if a := spec.Affinity; a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		warn("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", "there is no scheduler: podrun starts the pod without checking which other pods run on this host")
	}
}

// unmeasured warns about limits on disk space if no supervisor runs. They need a process that
// measures the usage and evicts pods, such as the kubelet or podrun serve.
func unmeasured(q question) problem.List {
	var out problem.List
	warn := func(field, message string) {
		out = append(out, problem.Problem{Field: field, Reason: "Ignored", Warning: true, Message: message})
	}
	for i, v := range q.pod.Spec.Volumes {
		switch {
		case v.Ephemeral != nil:
			warn(fmt.Sprintf("spec.volumes[%d].ephemeral", i), fmt.Sprintf("podrun does not provision a claim: volume %q is a directory in the pod's directory and has no size limit", v.Name))
		case !q.options.Supervised && v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault:
			warn(fmt.Sprintf("spec.volumes[%d].emptyDir.sizeLimit", i), fmt.Sprintf("only podrun serve enforces the limit: volume %q may grow beyond %s", v.Name, v.EmptyDir.SizeLimit))
		}
	}
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		if limit, has := c.Resources.Limits[corev1.ResourceEphemeralStorage]; has && !q.options.Supervised {
			warn(field+".resources.limits[ephemeral-storage]", fmt.Sprintf("only podrun serve enforces the limit: container %q may write more than %s", c.Name, limit.String()))
		}
	})
	return out
}

// windows warns about Windows options.
func windows(q question) problem.List {
	var out problem.List
	check := func(field string, o *corev1.WindowsSecurityContextOptions) {
		if o != nil {
			out = append(out, problem.Problem{Field: field + ".windowsOptions", Reason: "Ignored", Warning: true,
				Message: "this host does not run Windows: the options have no effect"})
		}
	}
	if sc := q.pod.Spec.SecurityContext; sc != nil {
		check("spec.securityContext", sc.WindowsOptions)
	}
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		if sc := c.SecurityContext; sc != nil {
			check(field+".securityContext", sc.WindowsOptions)
		}
	})
	return out
}
