package admission

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/problem"
)

// checkRuntimeReady refuses pods while the runtime reports that it is not ready.
func checkRuntimeReady(q question) problem.List {
	c, ok := condition(q.facts.Runtime, runtimeapi.RuntimeReady)
	if ok && c.Status {
		return nil
	}
	return list(problem.Problem{
		Reason: "RuntimeNotReady", Message: "container runtime is not ready" + because(c, ok), Hint: "see the runtime's log",
	})
}

// checkNetworkReady refuses a pod that needs a pod network while the runtime cannot provide
// one.
func checkNetworkReady(q question) problem.List {
	c, ok := condition(q.facts.Runtime, runtimeapi.NetworkReady)
	if ok && c.Status || q.pod.Spec.HostNetwork {
		return nil
	}
	return list(problem.Problem{
		Reason: "NetworkNotReady", Message: "network is not ready" + because(c, ok),
		Hint: "add a network configuration to " + q.facts.Runtime.NetworkDir() + " ('podrun doctor' prints an example), or set spec.hostNetwork",
	})
}

// checkCgroupDriver refuses a cgroup driver that a flag or a configuration file sets, if the runtime's driver differs.
// runc may treat the name of a slice as a path. In that case, containers run outside of the pod's cgroup and without
// its limits. With the opposite mismatch, runc rejects a path as the name of a slice, with an error that is hard to
// understand.
func checkCgroupDriver(q question) problem.List {
	ours, theirs := q.facts.Cgroup.Driver, q.facts.Runtime.ReportedDriver
	if ours == theirs || ours == "" || theirs == "" || q.handler != "" || !q.podCgroups() {
		return nil
	}
	return list(problem.Problem{
		Reason:  "CgroupDriverMismatch",
		Message: fmt.Sprintf("podrun is configured for the %s cgroup driver, but the runtime uses %s", ours, theirs),
		Hint:    fmt.Sprintf("remove --cgroup-driver and cgroupDriver, or set --cgroup-driver=%s", theirs),
	})
}

// podCgroups reports whether pods have cgroups.
func (q question) podCgroups() bool {
	return q.settings.CgroupsPerQOS && q.facts.Cgroup.Unavailable == ""
}

func condition(r host.Runtime, name string) (host.RuntimeCondition, bool) {
	for _, c := range r.Conditions {
		if c.Type == name {
			return c, true
		}
	}
	return host.RuntimeCondition{}, false
}

func because(c host.RuntimeCondition, known bool) string {
	if !known {
		return ": the runtime does not report why"
	}
	if why := strings.TrimSpace(c.Reason + " " + c.Message); why != "" {
		return ": " + why
	}
	return ""
}

// checkHandler refuses a RuntimeClass if the runtime does not have its handler. If the runtime
// does not list its handlers, checkHandler accepts any handler. If this handler is missing, the
// runtime fails to create the sandbox.
func checkHandler(q question) problem.List {
	if q.handler == "" || !q.facts.Runtime.HandlersOK {
		return nil
	}
	if _, ok := q.facts.Runtime.Handlers[q.handler]; ok {
		return nil
	}
	if program := q.facts.Runtime.NewHandlers[q.handler]; program != "" {
		return list(problem.Problem{
			Field: "spec.runtimeClassName", Reason: "RuntimeHandlerNotFound",
			Message: fmt.Sprintf("the runtime has no handler %q yet: %s was installed after the runtime had been started", q.handler, program),
			Hint:    "run 'podrun runtime up', which restarts containerd; the containers keep running",
		})
	}
	var have []string
	for name := range q.facts.Runtime.Handlers {
		if name != "" {
			have = append(have, name)
		}
	}
	slices.Sort(have)
	return list(problem.Problem{
		Field: "spec.runtimeClassName", Reason: "RuntimeHandlerNotFound",
		Message: fmt.Sprintf("the runtime has no handler %q", q.handler),
		Hint:    fmt.Sprintf("use one of the runtime's handlers: %s", strings.Join(have, ", ")),
	})
}

// runtimeOlder reports whether the runtime is known to be older than the version in the list
// for its name. It returns false if the runtime or its version is unknown.
func (q question) runtimeOlder(since map[string]*version.Version) bool {
	have, err := version.ParseGeneric(q.facts.Runtime.Version)
	needs := since[q.facts.Runtime.Name]
	return err == nil && needs != nil && !have.AtLeast(needs)
}

// checkRecursiveReadOnly refuses mounts with `recursiveReadOnly: Enabled` if the runtime
// handler does not advertise the feature.
func checkRecursiveReadOnly(q question) problem.List {
	if q.facts.Runtime.Handlers[q.handler].RecursiveReadOnlyMounts {
		return nil
	}
	var out problem.List
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		for i, m := range c.VolumeMounts {
			if m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled {
				out = append(out, problem.Problem{
					Field:   fmt.Sprintf("%s.volumeMounts[%d].recursiveReadOnly", field, i),
					Reason:  "RecursiveReadOnlyNotSupported",
					Message: fmt.Sprintf("%s does not support recursive read-only mounts", runtimeName(q)),
					Hint:    "use IfPossible, or containerd 2.0 with runc 1.1",
				})
			}
		}
	})
	return out
}

// checkSupplementalGroups refuses supplementalGroupsPolicy Strict if the runtime does not advertise
// the feature (KEP-3619).
func checkSupplementalGroups(q question) problem.List {
	sc := q.pod.Spec.SecurityContext
	if sc == nil || sc.SupplementalGroupsPolicy == nil || *sc.SupplementalGroupsPolicy != corev1.SupplementalGroupsPolicyStrict ||
		q.facts.Runtime.Features["supplementalGroupsPolicy"] {
		return nil
	}
	return list(problem.Problem{
		Field: "spec.securityContext.supplementalGroupsPolicy", Reason: "SupplementalGroupsPolicyNotSupported",
		Message: "SupplementalGroupsPolicy=Strict is not supported in this node",
		Hint:    "requires containerd 2.0 or CRI-O 1.31",
	})
}

// checkCgroupControllers refuses pods if the kernel lacks a controller that the pod's cgroup needs.
// Otherwise, the pod's limits would silently have no effect. (A Raspberry Pi boots without the
// memory controller.) The kubelet does not start on such a host. For an ordinary user, checkLimits warns.
func checkCgroupControllers(q question) problem.List {
	if !q.podCgroups() || q.facts.User != nil {
		return nil
	}
	var out problem.List
	for _, name := range []string{"cpu", "memory", "pids"} {
		if q.facts.Cgroup.Has(name) {
			continue
		}
		out = append(out, problem.Problem{
			Reason: "CgroupControllerMissing", Message: fmt.Sprintf("the cgroup controller %s is not available", name),
			Hint: fmt.Sprintf("use cgroup v2, or enable the controller in the kernel (cgroup_enable=%s) and mount it, or set cgroupsPerQOS: false in the --config file", name),
		})
	}
	return out
}

func runtimeName(q question) string {
	name := strings.TrimSpace(q.facts.Runtime.Name + " " + q.facts.Runtime.Version)
	if q.handler != "" {
		name += " with the handler " + q.handler
	}
	return name
}

func sameRoot(a, b string) bool { return path.Clean("/"+a) == path.Clean("/"+b) }

// eachContainer calls visit for each container of the pod, with the container's field path.
// Init containers are first, ephemeral containers last.
func eachContainer(pod *corev1.Pod, visit func(field string, c *corev1.Container)) {
	for i := range pod.Spec.InitContainers {
		visit(fmt.Sprintf("spec.initContainers[%d]", i), &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		visit(fmt.Sprintf("spec.containers[%d]", i), &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		visit(fmt.Sprintf("spec.ephemeralContainers[%d]", i), (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}
