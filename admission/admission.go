// Package admission decides whether this host may run a pod, and lists all reasons for a
// refusal. It is pure: its inputs are a pod, the host's facts and the settings, its
// output is a list of problems. Reasons and messages are the kubelet's if the kubelet
// refuses a pod for the same cause.
package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/resource"
)

// Pod is a pod to admit.
type Pod struct {
	Pod     *corev1.Pod // defaulted, with its UID
	Handler string      // the runtime handler of its RuntimeClass; "" is the default
	// HostPaths are the paths of the host that its volumes show to containers.
	HostPaths []HostPath
}

// Options disable checks of admission.
type Options struct {
	AllowKubelet bool // run on a host with a kubelet
	// Supervised is true if a supervisor of this root directory runs, which enforces
	// limits of local storage.
	Supervised bool
}

// question is the input of a check.
type question struct {
	pod       *corev1.Pod
	handler   string
	hostPaths []HostPath
	facts     host.Facts
	others    []host.Pod // of the runtime, without those that leave
	arrived   []host.Pod // pods of the same command that were admitted before
	leaving   []host.Pod // those that this command replaces
	settings  nodeconfig.Settings
	options   Options
}

// checks is every check, in the order in which their problems are reported.
// Each answers with problems that need no Object.
var checks = []func(question) problem.List{
	checkUID,
	checkUIDOwner,
	checkPathLengths,
	checkName,
	checkShutdown,
	checkKubelet,
	checkCgroupDriver,
	checkRuntimeReady,
	checkNetworkReady,
	checkHandler,
	checkUserNamespaces,
	checkProcMount,
	checkRecursiveReadOnly,
	checkSupplementalGroups,
	checkImageVolumes,
	checkStopSignals,
	checkCgroupControllers,
	checkOS,
	checkNodeSelector,
	checkTaints,
	checkResources,
	checkMinMemory,
	checkPressure,
	checkDevices,
	checkHostPorts,
	checkLoopbackPorts,
	checkSysctls,
	checkAppArmor,
	checkAppArmorLoaded,
	checkSeccomp,
	checkSELinux,
	checkPrivileged,
	checkPodSecurity,
	checkHostPaths,
	checkClaims,
	checkIgnored,
	checkSpare,
}

// Check returns why this host cannot run a pod. The requests and ports of the pod
// that it replaces - podrun's pod of the same namespace and name - do not count.
func Check(p Pod, facts host.Facts, s nodeconfig.Settings, o Options) problem.List {
	return CheckAll([]Pod{p}, facts, s, o)[0].Problems
}

// Verdict is the result of admission of one pod.
type Verdict struct {
	Problems problem.List
	// Preempts are podrun's pods that must be stopped for this one, if it is
	// admitted.
	Preempts []host.Pod
	// Devices are the CDI devices that the pod's containers get, by their names.
	Devices map[string][]string
}

// CheckAll admits pods together, in order: the requests and ports of each
// admitted pod count for the next ones, and those of pods that are replaced or
// preempted do not count. It returns one verdict per pod.
func CheckAll(pods []Pod, facts host.Facts, s nodeconfig.Settings, o Options) []Verdict {
	q := question{facts: facts, settings: s, options: o}
	for _, h := range facts.Pods {
		if slices.ContainsFunc(pods, func(p Pod) bool { return replaces(p.Pod, h) }) {
			q.leaving = append(q.leaving, h)
		} else {
			q.others = append(q.others, h)
		}
	}
	out := make([]Verdict, len(pods))
	for i, p := range pods {
		q.pod, q.handler, q.hostPaths = p.Pod, p.Handler, p.HostPaths
		out[i] = q.verdict()
		if len(out[i].Problems.Errors()) > 0 {
			continue
		}
		q.arrived = append(q.arrived, Describe(p.Pod, out[i].Devices))
		q.others = slices.DeleteFunc(slices.Clone(q.others), func(o host.Pod) bool { return among(out[i].Preempts, o) })
	}
	return out
}

// among reports whether a pod is in a list.
func among(list []host.Pod, p host.Pod) bool {
	return slices.ContainsFunc(list, func(o host.Pod) bool { return o.UID == p.UID })
}

// verdict runs all checks for the pod. If a critical pod lacks only resources, it selects
// pods to preempt.
func (q question) verdict() Verdict {
	var out Verdict
	for _, check := range checks {
		out.Problems = append(out.Problems, check(q)...)
	}
	q.preempt(&out)
	q.allocate(&out)
	for i := range out.Problems {
		out.Problems[i].Object = "Pod " + q.pod.Namespace + "/" + q.pod.Name
	}
	return out
}

// present are the other pods that count: those here and those that come.
func (q question) present() []host.Pod { return slices.Concat(q.others, q.arrived) }

// replaces reports whether a pod takes the place of one of podrun's on this host.
// One of the same UID and another name is not replaced: checkUIDOwner refuses.
func replaces(pod *corev1.Pod, here host.Pod) bool {
	return here.Managed && here.Namespace == pod.Namespace && here.Name == pod.Name
}

// Describe returns a pod as the facts would show it while it runs, with these
// devices.
func Describe(pod *corev1.Pod, devices map[string][]string) host.Pod {
	out := host.Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
		Managed: true, Reserved: true, HostNetwork: pod.Spec.HostNetwork,
		QOSClass: resource.QOSClass(pod), Requests: resource.PodRequests(pod), HostPorts: host.HostPorts(pod),
		Devices: devices,
	}
	if pod.Spec.Priority != nil {
		out.Priority = *pod.Spec.Priority
	}
	return out
}

// holds reports whether a pod occupies resources and ports: it runs, or they are reserved
// for it. This includes pods of a podrun with another root directory.
func holds(p host.Pod) bool { return (p.Managed || p.RootDir != "") && (p.Ready || p.Reserved) }

// list is a list of at most one problem.
func list(p problem.Problem) problem.List { return problem.List{p} }
