// Package sandbox plans, creates and removes a pod's sandbox. The sandbox has the namespaces and
// the network that the pod's containers share. New is pure; Apply and Remove call the runtime.
package sandbox

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/node/util/sysctl"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/resource"
)

// Input contains all inputs for the plan of a sandbox.
type Input struct {
	Pod        *corev1.Pod // with defaults
	ID         identity.Pod
	Attempt    uint32 // 0 for the pod's first sandbox
	Invocation string // the random ID of this podrun process

	DNS          *runtimeapi.DNSConfig
	Hostname     string // the kernel's host name; not used if the pod uses the host's network
	CgroupParent string // the pod's cgroup in the runtime's format
	Handler      string // the runtime handler; "" is the default

	Layout   identity.Layout
	Settings nodeconfig.Settings
	Cgroup   host.Cgroup

	UserNS      *runtimeapi.UserNamespace // nil means the host's user namespace
	ExtraGroups []int64                   // supplemental GIDs of the pod's persistent volumes
}

// Plan describes a sandbox to be created. It marshals to stable JSON, except for Config,
// which is a CRI message.
type Plan struct {
	ID          identity.Pod                 `json:"id"`
	Attempt     uint32                       `json:"attempt"`
	Invocation  string                       `json:"invocation"`
	Handler     string                       `json:"handler,omitempty"`
	HostNetwork bool                         `json:"hostNetwork,omitempty"`
	Config      *runtimeapi.PodSandboxConfig `json:"config"`
}

// Namespaces returns the sandbox's namespaces, which its containers join.
func (p Plan) Namespaces() *runtimeapi.NamespaceOption {
	return p.Config.GetLinux().GetSecurityContext().GetNamespaceOptions()
}

// New returns the plan of the sandbox, with the configuration that the kubelet generates
// (generatePodSandboxConfig). Only the annotations that identify podrun are different. The returned
// problems are problems of the manifest.
func New(in Input) (Plan, problem.List) {
	pod := *in.Pod
	pod.Namespace, pod.Name, pod.UID = in.ID.Namespace, in.ID.Name, types.UID(in.ID.UID)
	in.Pod = &pod

	security, problems := securityContext(in)
	node := resource.Node{
		CFSQuota:     in.Settings.CPUCFSQuota,
		PeriodMicros: int64(in.Settings.CPUCFSQuotaPeriod / time.Microsecond),
		CgroupV2:     in.Cgroup.Version == 2,
	}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: in.ID.Name, Namespace: in.ID.Namespace, Uid: in.ID.UID, Attempt: in.Attempt,
		},
		LogDirectory: in.Layout.Logs(in.ID),
		DnsConfig:    in.DNS,
		PortMappings: portMappings(in.Pod),
		Labels:       labels(in),
		Annotations:  annotations(in),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    in.CgroupParent,
			SecurityContext: security,
			Sysctls:         sysctls(in.Pod),
			Resources:       resource.SandboxLinux(node, in.Pod),
			Overhead:        resource.OverheadLinux(node, in.Pod),
		},
	}
	if !pod.Spec.HostNetwork {
		config.Hostname = in.Hostname
	}
	return Plan{
		ID: in.ID, Attempt: in.Attempt, Invocation: in.Invocation,
		Handler: in.Handler, HostNetwork: pod.Spec.HostNetwork, Config: config,
	}, problems
}

// labels returns the pod's labels and the labels by which podrun finds the sandbox. The latter take
// precedence.
func labels(in Input) map[string]string {
	out := map[string]string{}
	maps.Copy(out, in.Pod.Labels)
	maps.Copy(out, in.ID.Labels())
	return out
}

func annotations(in Input) map[string]string {
	out := map[string]string{}
	maps.Copy(out, in.Pod.Annotations)
	out[identity.AnnotationManagedBy] = identity.ManagedBy
	out[identity.AnnotationInvocation] = in.Invocation
	out[identity.AnnotationRootDir] = in.Layout.RootDir
	return out
}

// sysctls returns the pod's sysctls with dots in their names. The API also accepts slashes, but
// runtimes do not.
func sysctls(pod *corev1.Pod) map[string]string {
	out := map[string]string{}
	if sc := pod.Spec.SecurityContext; sc != nil {
		for _, s := range sc.Sysctls {
			out[sysctl.NormalizeName(s.Name)] = s.Value
		}
	}
	return out
}
