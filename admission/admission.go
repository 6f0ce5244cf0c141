// Package admission decides whether this host may run a pod, and lists all reasons for a
// refusal. It is pure: it takes a pod, the host's facts and the settings, and returns a list
// of problems. Where the kubelet would refuse the pod for the same cause, the reason and
// message are the kubelet's.
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
	// HostPaths are the host paths that the pod's volumes expose to its containers.
	HostPaths []HostPath
}

// Options disables admission checks or changes their result.
type Options struct {
	AllowKubelet bool // run on a host with a kubelet
	// Supervised is true if a supervisor runs for this root directory: it enforces the
	// limits on local storage.
	Supervised bool
}

// question is the input of every check.
type question struct {
	pod       *corev1.Pod
	handler   string
	hostPaths []HostPath
	facts     host.Facts
	others    []host.Pod // pods of the runtime, except those in replaced
	admitted  []host.Pod // pods of the same command that were admitted before
	replaced  []host.Pod // pods that this command replaces
	settings  nodeconfig.Settings
	options   Options
}

// checks lists all checks in the order in which their problems are reported. A check leaves
// the Object of its problems empty; verdict sets it.
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

// Check returns the reasons why this host cannot run a pod. If the pod replaces another one
// (podrun's pod of the same namespace and name), that pod's requests and ports do not count.
func Check(p Pod, facts host.Facts, s nodeconfig.Settings, o Options) problem.List {
	return CheckAll([]Pod{p}, facts, s, o)[0].Problems
}

// Verdict is the admission result of one pod.
type Verdict struct {
	Problems problem.List
	// Preempts lists podrun's pods that must be stopped before this one, if admitted, can
	// start.
	Preempts []host.Pod
	// Devices maps the name of each container to the CDI devices that it gets.
	Devices map[string][]string
}

// CheckAll admits the pods in order. The requests and ports of an admitted pod count for the pods
// that follow it; those of replaced or preempted pods do not count. It returns one verdict per pod.
func CheckAll(pods []Pod, facts host.Facts, s nodeconfig.Settings, o Options) []Verdict {
	q := question{facts: facts, settings: s, options: o}
	for _, h := range facts.Pods {
		if slices.ContainsFunc(pods, func(p Pod) bool { return replaces(p.Pod, h) }) {
			q.replaced = append(q.replaced, h)
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
		q.admitted = append(q.admitted, Describe(p.Pod, out[i].Devices))
		q.others = slices.DeleteFunc(slices.Clone(q.others), func(o host.Pod) bool { return among(out[i].Preempts, o) })
	}
	return out
}

// among reports whether the list contains a pod.
func among(list []host.Pod, p host.Pod) bool {
	return slices.ContainsFunc(list, func(o host.Pod) bool { return o.UID == p.UID })
}

// verdict runs all checks for the pod. If the pod is critical and only resources are
// missing, it selects pods to preempt.
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

// countedPods returns the other pods whose requests and ports count: the pods on this host, and pods of
// the same command that were admitted before.
func (q question) countedPods() []host.Pod { return slices.Concat(q.others, q.admitted) }

// replaces reports whether a pod replaces one of podrun's pods on this host. A pod with the same
// UID but another name does not replace it: checkUIDOwner refuses that pod.
func replaces(pod *corev1.Pod, here host.Pod) bool {
	return here.Managed && here.Namespace == pod.Namespace && here.Name == pod.Name
}

// Describe returns the entry that the host's facts would contain for a running pod with
// these devices.
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

// occupies reports whether a pod of podrun, with any root directory, occupies resources and ports:
// it is running, or resources are reserved for it.
func occupies(p host.Pod) bool { return (p.Managed || p.RootDir != "") && (p.Ready || p.Reserved) }

// list returns a list that contains one problem.
func list(p problem.Problem) problem.List { return problem.List{p} }
