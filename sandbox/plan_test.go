package sandbox

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
)

// input returns the input for a small pod default/web with UID u. test/parity compares the
// fields that all pods have with a kubelet's recordings.
func input() Input {
	s := nodeconfig.Default()
	return Input{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}},
		},
		ID: identity.Pod{Namespace: "default", Name: "web", UID: "u"}, Invocation: "i1",
		DNS: &runtimeapi.DNSConfig{}, Hostname: "web", CgroupParent: "/kubepods/besteffort/podu",
		Layout: s.Layout(), Settings: s, Cgroup: host.Cgroup{Version: 1},
	}
}

func mustPlan(t *testing.T, in Input) Plan {
	t.Helper()
	p, problems := New(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

func ptr[T any](v T) *T { return &v }

func TestLabelsAndAnnotations(t *testing.T) {
	in := input()
	in.Pod.Labels = map[string]string{"app": "demo", identity.LabelPodUID: "forged"}
	in.Pod.Annotations = map[string]string{"note": "x", identity.AnnotationManagedBy: "forged"}
	before := maps.Clone(in.Pod.Annotations)
	c := mustPlan(t, in).Config
	if diff := cmp.Diff(map[string]string{
		"app": "demo", identity.LabelPodName: "web", identity.LabelPodNamespace: "default", identity.LabelPodUID: "u",
	}, c.Labels); diff != "" {
		t.Errorf("labels: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		"note": "x", identity.AnnotationManagedBy: "podrun", identity.AnnotationInvocation: "i1", identity.AnnotationRootDir: "/var/lib/podrun",
	}, c.Annotations); diff != "" {
		t.Errorf("annotations: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, in.Pod.Annotations); diff != "" {
		t.Errorf("the pod was changed:\n%s", diff)
	}
}

func TestPortMappings(t *testing.T) {
	in := input()
	in.Pod.Spec.InitContainers = []corev1.Container{{Name: "side", Ports: []corev1.ContainerPort{{ContainerPort: 1}}}}
	in.Pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{
		{Name: "a", ContainerPort: 80, Protocol: corev1.ProtocolTCP},
		// The first port with a name counts.
		{Name: "a", ContainerPort: 81, Protocol: corev1.ProtocolTCP},
		{ContainerPort: 53, HostPort: 53, Protocol: corev1.ProtocolUDP, HostIP: "127.0.0.1"}, // one mapping for each protocol and host IP
		{ContainerPort: 53, HostPort: 53, Protocol: corev1.ProtocolUDP, HostIP: "::1"},       // a separate mapping for each family
		{ContainerPort: 53, HostPort: 53, Protocol: corev1.ProtocolUDP, HostIP: "::1"},       // a duplicate, issue 82373
		{ContainerPort: 9, Protocol: corev1.ProtocolSCTP},                                    // no hostPort
	}}, {Ports: []corev1.ContainerPort{{Name: "a", ContainerPort: 82, Protocol: corev1.ProtocolTCP}}}} // another container
	var got []string
	for _, m := range mustPlan(t, in).Config.PortMappings {
		got = append(got, m.Protocol.String()+" "+m.HostIp+" "+fmt.Sprint(m.HostPort, m.ContainerPort))
	}
	want := []string{"TCP  0 80", "UDP 127.0.0.1 53 53", "UDP ::1 53 53", "SCTP  0 9", "TCP  0 82"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSysctlsAreNamedWithDots(t *testing.T) {
	in := input()
	in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{
		{Name: "net/ipv4/conf/eth0.1/forwarding", Value: "1"}, {Name: "kernel.shm_rmid_forced", Value: "0"},
	}}
	want := map[string]string{"net.ipv4.conf.eth0/1.forwarding": "1", "kernel.shm_rmid_forced": "0"}
	if diff := cmp.Diff(want, mustPlan(t, in).Config.Linux.Sysctls); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPrivilegedOfAnyContainer(t *testing.T) {
	privileged := &corev1.SecurityContext{Privileged: ptr(true)}
	for name, spec := range map[string]corev1.PodSpec{
		"init":      {InitContainers: []corev1.Container{{SecurityContext: privileged}}},
		"app":       {Containers: []corev1.Container{{}, {SecurityContext: privileged}}},
		"ephemeral": {EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{SecurityContext: privileged}}}},
	} {
		in := input()
		in.Pod.Spec = spec
		if !mustPlan(t, in).Config.Linux.SecurityContext.Privileged {
			t.Errorf("%s: the sandbox is not privileged", name)
		}
	}
	if mustPlan(t, input()).Config.Linux.SecurityContext.Privileged {
		t.Error("privileged without reason")
	}
}

func TestGroupsInOrder(t *testing.T) {
	in := input()
	in.ExtraGroups = []int64{7}
	in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr[int64](1), SupplementalGroups: []int64{9}}
	if diff := cmp.Diff([]int64{1, 7, 9}, mustPlan(t, in).Config.Linux.SecurityContext.SupplementalGroups); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUnknownGroupsPolicyIsAProblem(t *testing.T) {
	in := input()
	in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: ptr(corev1.SupplementalGroupsPolicy("Odd"))}
	_, problems := New(in)
	if len(problems) != 1 || problems[0].Field != "spec.securityContext.supplementalGroupsPolicy" {
		t.Errorf("got %v", problems)
	}
}

func TestResourcesAndOverheadOnV2(t *testing.T) {
	in := input()
	in.Cgroup.Version = 2
	in.Pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("250m"), corev1.ResourceMemory: apiresource.MustParse("120Mi")}
	in.Pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("500m"), corev1.ResourceMemory: apiresource.MustParse("64Mi")}
	in.Pod.Spec.Containers[0].Resources.Requests = in.Pod.Spec.Containers[0].Resources.Limits
	l := mustPlan(t, in).Config.Linux
	if r := l.Resources; r.CpuShares != 512 || r.CpuQuota != 50000 || r.CpuPeriod != 100000 || r.MemoryLimitInBytes != 64<<20 {
		t.Errorf("resources without overhead: %v", r)
	}
	if o := l.Overhead; o.CpuShares != 256 || o.CpuQuota != 25000 || o.MemoryLimitInBytes != 120<<20 {
		t.Errorf("overhead: %v", o)
	}
	if l.Resources.Unified["memory.oom.group"] != "1" || l.Overhead.Unified["memory.oom.group"] != "1" {
		t.Errorf("unified: %v, %v", l.Resources.Unified, l.Overhead.Unified)
	}
}

func TestNoQuotaWhereItIsOff(t *testing.T) {
	in := input()
	in.Settings.CPUCFSQuota = false
	in.Pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("500m")}
	if r := mustPlan(t, in).Config.Linux.Resources; r.CpuPeriod != 0 || r.CpuQuota != 0 || r.CpuShares != 512 {
		t.Errorf("got %v", r)
	}
}

func TestIPs(t *testing.T) {
	for _, tt := range []struct {
		name string
		ip   string
		more []string
		want []string
	}{
		{"none", "", nil, nil},
		{"two families", "10.0.0.1", []string{"fd00::1"}, []string{"10.0.0.1", "fd00::1"}},
		{"canonical", "010.0.0.1", nil, []string{"10.0.0.1"}},
		{"no address", "here", []string{"fd00::1"}, nil},
		{"a second that is none", "10.0.0.1", []string{""}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			net := &runtimeapi.PodSandboxNetworkStatus{Ip: tt.ip}
			for _, ip := range tt.more {
				net.AdditionalIps = append(net.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
			}
			if diff := cmp.Diff(tt.want, IPs(&runtimeapi.PodSandboxStatus{Network: net})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
