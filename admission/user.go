package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/problem"
)

// checkUser refuses pods that require the privileges of the host's root, if an ordinary user runs podrun: the kernel
// would refuse them later, with errors that do not name the reason. The reasons are in docs/rootless.md.
func checkUser(q question) problem.List {
	if q.facts.User == nil {
		return nil
	}
	var out problem.List
	refuse := func(field, reason, message, hint string) {
		out = append(out, problem.Problem{Field: field, Reason: reason, Message: message, Hint: hint})
	}
	if q.pod.Spec.HostUsers != nil && !*q.pod.Spec.HostUsers {
		refuse("spec.hostUsers", "UserNamespacesNotSupported", "user "+q.facts.User.Name+" cannot give a pod its own user namespace: the kernel does not permit ID-mapped mounts of the host's file systems",
			"omit hostUsers: false, because containers already run in a user namespace of user "+q.facts.User.Name+", or use sudo")
	}
	out = append(out, userIDs(q)...)
	for _, want := range host.HostPorts(q.pod) {
		switch {
		case want.Port < q.facts.User.FirstPort:
			refuse(want.Field, "PrivilegedPort", fmt.Sprintf("user %s cannot listen on port %d of the host", q.facts.User.Name, want.Port),
				fmt.Sprintf("use a port from %d, or let root run 'sysctl -w net.ipv4.ip_unprivileged_port_start=%d'", q.facts.User.FirstPort, want.Port))
		case want.Protocol == corev1.ProtocolSCTP && !q.pod.Spec.HostNetwork:
			refuse(want.Field, "SCTP", "host ports of an ordinary user do not support SCTP", "use TCP or UDP, or use sudo")
		}
	}
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			switch {
			case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
				refuse(fmt.Sprintf("%s.resources.limits[%s]", field, name), "HugePagesNotSupported", "user "+q.facts.User.Name+" cannot use huge pages: only root can limit them", "omit the limit, or use sudo")
			case len(q.facts.Devices[string(name)]) > 0:
				refuse(fmt.Sprintf("%s.resources.limits[%s]", field, name), "DevicesNotSupported", "user "+q.facts.User.Name+" cannot give devices of the host to containers", "use sudo")
			}
		}
	})
	for i, v := range q.pod.Spec.Volumes {
		field := fmt.Sprintf("spec.volumes[%d]", i)
		if v.EmptyDir != nil && strings.HasPrefix(string(v.EmptyDir.Medium), string(corev1.StorageMediumHugePages)) {
			refuse(field+".emptyDir.medium", "HugePagesNotSupported", "user "+q.facts.User.Name+" cannot mount hugetlbfs", "use another medium, or use sudo")
		}
	}
	return out
}

// userIDs refuses user and group IDs that the user namespace does not have. runc could not set them.
func userIDs(q question) problem.List {
	var out problem.List
	check := func(field string, id *int64, have int64, kind, option string) {
		if id == nil || have == 0 || *id < have {
			return
		}
		message := fmt.Sprintf("%s %d does not exist in the user namespace of user %s, which has the IDs 0 to %d", kind, *id, q.facts.User.Name, have-1)
		if have == 1 {
			message = fmt.Sprintf("%s %d does not exist: user %s has no subordinate IDs, so that containers have only the ID 0", kind, *id, q.facts.User.Name)
		}
		out = append(out, problem.Problem{Field: field, Reason: "SubordinateIDs", Message: message,
			Hint: fmt.Sprintf("use a lower ID, or let root add a range of at least %d IDs ('usermod %s FIRST-LAST %s'), then run 'podrun runtime down'", *id, option, q.facts.User.Name)})
	}
	users := func(field string, id *int64) { check(field, id, q.facts.User.UIDs, "user ID", "--add-subuids") }
	groups := func(field string, id *int64) { check(field, id, q.facts.User.GIDs, "group ID", "--add-subgids") }
	if sc := q.pod.Spec.SecurityContext; sc != nil {
		users("spec.securityContext.runAsUser", sc.RunAsUser)
		groups("spec.securityContext.runAsGroup", sc.RunAsGroup)
		groups("spec.securityContext.fsGroup", sc.FSGroup)
		for i := range sc.SupplementalGroups {
			groups(fmt.Sprintf("spec.securityContext.supplementalGroups[%d]", i), &sc.SupplementalGroups[i])
		}
	}
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		if sc := c.SecurityContext; sc != nil {
			users(field+".securityContext.runAsUser", sc.RunAsUser)
			groups(field+".securityContext.runAsGroup", sc.RunAsGroup)
		}
	})
	return out
}

// checkLimits warns about limits that have no effect, because the pods of an ordinary user have no cgroups, or systemd
// does not delegate a controller to the user. With requireLimits, it refuses the pod.
func checkLimits(q question) problem.List {
	if q.facts.User == nil && q.facts.Cgroup.Unavailable == "" {
		return nil
	}
	limited := map[string]bool{}
	eachContainer(q.pod, func(_ string, c *corev1.Container) {
		for name := range c.Resources.Limits {
			limited[string(name)] = true
		}
	})
	if r := q.pod.Spec.Resources; r != nil {
		for name := range r.Limits {
			limited[string(name)] = true
		}
	}
	var names []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if limited[string(name)] && (q.facts.Cgroup.Unavailable != "" || !q.facts.Cgroup.Has(string(name))) {
			names = append(names, string(name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	why, hint := q.facts.Cgroup.Unavailable, "sudo enforces limits; --require-limits refuses such pods"
	if why == "" {
		why = "systemd does not delegate these controllers to user " + q.facts.User.Name
		hint = "let root run 'systemctl edit user@.service' and add the lines [Service] and Delegate=cpu memory pids; --require-limits refuses such pods"
	}
	return list(problem.Problem{
		Reason: "LimitsNotEnforced", Warning: !q.settings.RequireLimits,
		Message: fmt.Sprintf("the limits of %s have no effect: %s", strings.Join(names, " and "), why),
		Hint:    hint,
	})
}
