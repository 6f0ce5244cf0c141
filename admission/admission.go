// Package admission decides whether this host may run a pod. It lists all reasons for a
// refusal. It is pure: its input is a pod, the host's facts and the settings, and its output
// is a list of problems. If the kubelet would refuse the pod for the same cause, the reason and
// the message are the kubelet's.
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
	// OfCluster is true if the API server of a cluster defines the pod (manifest.Pod).
	OfCluster bool
}

// Options disables admission checks or changes their results.
type Options struct {
	AllowKubelet bool // run on a host with a kubelet
	// Supervised is true if a supervisor runs for this root directory. The supervisor enforces the
	// limits on local storage.
	Supervised bool
}

// question is the input of every check.
type question struct {
	pod       *corev1.Pod
	handler   string
	hostPaths []HostPath
	ofCluster bool
	facts     host.Facts
	others    []host.Pod // pods of the runtime, except those in replaced
	admitted  []host.Pod // pods of the same command that were admitted before
	replaced  []host.Pod // pods that this command replaces
	settings  nodeconfig.Settings
	options   Options
}

// checks lists all checks, in the order in which podrun reports their problems. A check leaves
// the Object of its problems empty, and verdict sets it.
var checks = []func(question) problem.List{
	checkUID,
	checkNames,
	checkUIDOwner,
	checkPathLengths,
	checkName,
	checkShutdown,
	checkKubelet,
	checkCgroupDriver,
	checkRuntimeReady,
	checkNetworkReady,
	checkHandler,
	checkUser,
	checkLimits,
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
	checkManifestVolumes,
	checkHostPaths,
	checkClaims,
	checkIgnored,
	checkSpare,
}

// Check returns the reasons why this host cannot run a pod. If the pod replaces another one
// (podrun's pod of the same namespace and name), the requests and ports of the replaced pod do
// not count.
func Check(p Pod, facts host.Facts, s nodeconfig.Settings, o Options) problem.List {
	return CheckAll([]Pod{p}, facts, s, o)[0].Problems
}

// Verdict is the admission result of one pod.
type Verdict struct {
	Problems problem.List
	// Preempts lists podrun's pods that must be stopped before this pod, if it is admitted, can
	// start.
	Preempts []host.Pod
	// Devices maps the name of each container to the CDI devices that it gets.
	Devices map[string][]string
}

// CheckAll admits the pods in order. The requests and ports of an admitted pod count for the pods
// after it. Those of replaced or preempted pods do not count. It returns one verdict per pod.
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
		q.pod, q.handler, q.hostPaths, q.ofCluster = p.Pod, p.Handler, p.HostPaths, p.OfCluster
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

// countedPods returns the other pods whose requests and ports count. These are the pods on this host,
// and pods of the same command that were admitted before.
func (q question) countedPods() []host.Pod { return slices.Concat(q.others, q.admitted) }

// replaces reports whether a pod replaces one of podrun's pods on this host. If a pod has the
// same UID but another name, it does not replace that pod: checkUIDOwner refuses it.
func replaces(pod *corev1.Pod, here host.Pod) bool {
	return here.Managed && here.Namespace == pod.Namespace && here.Name == pod.Name
}

// Describe returns the entry that the host's facts would have for this pod if it ran with these
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

// occupies reports whether a pod of podrun occupies resources and ports. It does if it is running,
// or if resources are reserved for it. The pod may belong to any root directory.
func occupies(p host.Pod) bool { return (p.Managed || p.RootDir != "") && (p.Ready || p.Reserved) }

// list returns a list that contains one problem.
func list(p problem.Problem) problem.List { return problem.List{p} }
