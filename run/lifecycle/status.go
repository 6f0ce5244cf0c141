package lifecycle

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/resource"
)

// The status reasons of a pod that a command has stopped or is stopping. The pod does not run until a
// command starts it.
const (
	ReasonStopped  = "Stopped"
	ReasonStopping = "Stopping"
)

// The reason and the message of a pod that has run longer than activeDeadlineSeconds
// (pkg/kubelet/active_deadline.go).
const (
	ReasonDeadlineExceeded  = "DeadlineExceeded"
	MessageDeadlineExceeded = "Pod was active on the node longer than the specified deadline"
)

// StatusInput is the input of Status apart from the pod.
type StatusInput struct {
	// Observed is the observed state of the pod. It is nil if the runtime has no sandbox and no
	// container of the pod.
	Observed *Observed
	// NodeIPs are this host's addresses, the primary one first. Status uses at most one address of
	// each family.
	NodeIPs []string
	// RuntimeName is the prefix of container IDs; "" means containerd.
	RuntimeName string
	// Waiting explains why containers are not started, by container name.
	Waiting map[string]Waiting
	// Messages are the termination messages, by container ID.
	Messages map[string]string
	// Started and Ready are the results of startup and readiness probes, by container ID. A
	// container whose probe has no result yet is not started or not ready. A running container
	// without such a probe is started and ready.
	Started, Ready map[string]bool
	// RecursiveReadOnly is true if the pod's runtime handler supports recursive read-only mounts
	// (KEP-3857).
	RecursiveReadOnly bool

	// Over is true if podrun will not start any container of the pod again, because a command has
	// stopped the pod permanently or is stopping it. The restart policy then has no effect.
	Over bool
	// Undefined is true for a pod that has no definition, only leftovers in the runtime. Such a pod
	// is never ready.
	Undefined bool
	// Reason and Message describe why the whole pod failed: Evicted, DeadlineExceeded, or a refusal
	// such as OutOfcpu. They are empty if it did not fail as a whole.
	Reason, Message string

	// StartTime is the pod's start time. If it is zero, Status uses the creation time of the pod's
	// oldest sandbox.
	StartTime time.Time
	Now       time.Time
}

// Status computes a pod's status as the kubelet (v1.36) does
// (pkg/kubelet/kubelet_pods.go, status/generate.go, prober/prober_manager.go).
//
// It requires no earlier status, because it derives terminations from the runtime's records. Transition
// times, and the phase of a pod that has ended, come from the record of the pod's owner
// (Observed.Kept). Without such a record, Status derives them from the runtime's timestamps, so that
// two calls with the same input return the same result. It keeps conditions in pod.Status that the
// kubelet does not set. There is one deliberate difference: an init container of an older sandbox never
// counts as completed (k/k#140309).
func Status(pod *corev1.Pod, in StatusInput) corev1.PodStatus {
	in = in.withDefaults()
	if kept := in.Observed.Kept; kept.Terminal() {
		in.Reason = kept.Reason
		in.Message = kept.Message
	}
	s := corev1.PodStatus{
		ObservedGeneration: pod.Generation,
		QOSClass:           resource.QOSClass(pod),
		Reason:             in.Reason,
		Message:            in.Message,
	}
	if !in.StartTime.IsZero() {
		t := metav1.NewTime(in.StartTime)
		s.StartTime = &t
	}
	setIPs(&s, pod, in)
	setPodResources(&s, pod)
	s.InitContainerStatuses = initStatuses(pod, in)
	s.ContainerStatuses = appStatuses(pod, in)
	s.EphemeralContainerStatuses = ephemeralStatuses(pod, in)
	boundMessages(&s)
	phase := phaseOf(pod, &s, in)
	s.Conditions = conditions(pod, &s, phase, in)
	s.Phase = deferTerminalPhase(pod, phase, in.Observed)
	return s
}

func (in StatusInput) withDefaults() StatusInput {
	if in.Observed == nil {
		in.Observed = &Observed{}
	}
	if in.RuntimeName == "" {
		in.RuntimeName = "containerd"
	}
	if n := len(in.Observed.Sandboxes); in.StartTime.IsZero() && n > 0 {
		in.StartTime = in.Observed.Sandboxes[n-1].CreatedAt
	}
	return in
}

// setIPs sets the addresses of the host and of the pod. If the pod uses the host's network, both
// are the host's addresses.
func setIPs(s *corev1.PodStatus, pod *corev1.Pod, in StatusInput) {
	hostIPs := in.NodeIPs[:min(2, len(in.NodeIPs))]
	for _, ip := range hostIPs {
		s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: ip})
	}
	var podIPs []string
	if sandbox := in.Observed.Sandbox(); sandbox != nil {
		podIPs = OrderIPs(sandbox.IPs, hostIPs)
	}
	switch kept := in.Observed.Kept; {
	case pod.Spec.HostNetwork:
		podIPs = hostIPs
	case len(podIPs) == 0 && kept.Terminal():
		podIPs = kept.PodIPs // pkg/kubelet/pleg/generic.go, getPodIPs
	}
	for _, ip := range podIPs {
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
	}
	if len(s.HostIPs) > 0 {
		s.HostIP = s.HostIPs[0].IP
	}
	if len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
}

// OrderIPs returns the first address of the same family as the node's primary address, then the first
// of the other family (k/k#97979). It skips strings that are not addresses.
func OrderIPs(ips, nodeIPs []string) []string {
	wantV6 := false
	if len(nodeIPs) > 0 {
		if node, err := netip.ParseAddr(nodeIPs[0]); err == nil {
			wantV6 = !node.Unmap().Is4()
		}
	}
	var first, second string
	for _, text := range ips {
		ip, err := netip.ParseAddr(text)
		switch {
		case err != nil:
		case !ip.Unmap().Is4() == wantV6 && first == "":
			first = ip.Unmap().String()
		case !ip.Unmap().Is4() != wantV6 && second == "":
			second = ip.Unmap().String()
		}
	}
	var out []string
	for _, ip := range []string{first, second} {
		if ip != "" {
			out = append(out, ip)
		}
	}
	return out
}

// setPodResources sets the pod-level sums. The kubelet reports them since pod-level resources can be
// resized in place (KEP-5419, enabled by default in v1.36).
func setPodResources(s *corev1.PodStatus, pod *corev1.Pod) {
	s.AllocatedResources = resource.PodRequests(pod)
	s.Resources = &corev1.ResourceRequirements{Requests: resource.PodRequests(pod), Limits: resource.PodLimits(pod)}
}
