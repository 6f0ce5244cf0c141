package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/problem"
)

// checkClaims refuses dynamic resources: drivers are registered with a kubelet,
// and claims are allocated by a scheduler. A container without the device that
// it claims would not be what was asked for.
func checkClaims(q question) problem.List {
	refuse := func(field string) problem.Problem {
		return problem.Problem{
			Field: field, Reason: "UnsupportedResourceClaim",
			Message: "dynamic resources are not supported: nobody here allocates claims or prepares their devices",
			Hint:    "take the claims out; a device file of the host can be a hostPath or a block volume",
		}
	}
	var out problem.List
	for i := range q.pod.Spec.ResourceClaims {
		out = append(out, refuse(fmt.Sprintf("spec.resourceClaims[%d]", i)))
	}
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		for i := range c.Resources.Claims {
			out = append(out, refuse(fmt.Sprintf("%s.resources.claims[%d]", field, i)))
		}
	})
	return out
}

// checkIgnored warns of what a pod asks of a cluster, and its author would miss:
// nothing that podrun does not honour is dropped in silence. What a kubelet
// does not read either, and does nothing where there is one host, is left to
// docs/pod-fields.md.
func checkIgnored(q question) problem.List {
	var out problem.List
	warn := func(field, message string) {
		out = append(out, problem.Problem{Field: field, Reason: "Ignored", Warning: true, Message: message})
	}
	spec := &q.pod.Spec
	for i, g := range spec.SchedulingGates {
		warn(fmt.Sprintf("spec.schedulingGates[%d]", i), fmt.Sprintf("nobody here clears the gate %q: the pod is started without waiting for it", g.Name))
	}
	for i, g := range spec.ReadinessGates {
		warn(fmt.Sprintf("spec.readinessGates[%d]", i), fmt.Sprintf("nobody here sets the condition %q: the pod will not be Ready", g.ConditionType))
	}
	if spec.SchedulingGroup != nil {
		warn("spec.schedulingGroup", "nothing is scheduled here: the pod is started without waiting for its group")
	}
	if a := spec.Affinity; a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		warn("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution", "only a scheduler looks at other pods: the pod is started whatever else runs here")
	}
	if a := spec.Affinity; a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		warn("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", "only a scheduler looks at other pods: the pod is started whatever else runs here")
	}
	for i, c := range spec.InitContainers {
		for j, p := range c.Ports {
			if p.HostPort != 0 && !spec.HostNetwork {
				warn(fmt.Sprintf("spec.initContainers[%d].ports[%d].hostPort", i, j), fmt.Sprintf("the kubelet maps ports of app containers only, and so does podrun: port %d of the host will not lead to the pod", p.HostPort))
			}
		}
	}
	out = append(out, unmeasured(q)...)
	return append(out, windows(q)...)
}

// unmeasured warns of limits on disk space, which the kubelet measures and evicts
// pods for.
func unmeasured(q question) problem.List {
	var out problem.List
	warn := func(field, message string) {
		out = append(out, problem.Problem{Field: field, Reason: "Ignored", Warning: true, Message: message})
	}
	for i, v := range q.pod.Spec.Volumes {
		switch {
		case v.Ephemeral != nil:
			warn(fmt.Sprintf("spec.volumes[%d].ephemeral", i), fmt.Sprintf("nobody here provisions a claim: volume %q is a directory of the pod's, without a limit", v.Name))
		case v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault:
			warn(fmt.Sprintf("spec.volumes[%d].emptyDir.sizeLimit", i), fmt.Sprintf("podrun does not measure disks: volume %q may grow beyond %s", v.Name, v.EmptyDir.SizeLimit))
		}
	}
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		if limit, has := c.Resources.Limits[corev1.ResourceEphemeralStorage]; has {
			warn(field+".resources.limits[ephemeral-storage]", fmt.Sprintf("podrun does not measure disks: container %q may write more than %s", c.Name, limit.String()))
		}
	})
	return out
}

// windows warns of options for another system than the pod is for.
func windows(q question) problem.List {
	var out problem.List
	look := func(field string, o *corev1.WindowsSecurityContextOptions) {
		if o != nil {
			out = append(out, problem.Problem{Field: field + ".windowsOptions", Reason: "Ignored", Warning: true,
				Message: "this host does not run Windows: they do nothing"})
		}
	}
	if sc := q.pod.Spec.SecurityContext; sc != nil {
		look("spec.securityContext", sc.WindowsOptions)
	}
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		if sc := c.SecurityContext; sc != nil {
			look(field+".securityContext", sc.WindowsOptions)
		}
	})
	return out
}
