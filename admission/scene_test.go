package admission

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

const uid = "d9607e19-f88f-11e6-a518-42010a800195"

// largeHost is a host that has resources for everything: 2 CPUs, 4Gi, Linux 6.1.
func largeHost() host.Facts {
	return host.Facts{
		NodeName: "here", OS: "linux", KernelVersion: "6.1.0-13-amd64",
		NodeLabels: map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/hostname": "here"},
		Capacity: corev1.ResourceList{
			"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("110"),
			"ephemeral-storage": resource.MustParse("100Gi"),
		},
		Cgroup: host.Cgroup{Version: 1, Controllers: []string{"cpu", "memory", "pids"}},
		Runtime: host.Runtime{Name: "containerd", Version: "1.6.20", Conditions: []host.RuntimeCondition{
			{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true},
		}},
	}
}

func plain() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}},
	}
}

// scene is the initial state of a test case: a pod that this host admits.
type scene struct {
	pod      *corev1.Pod
	handler  string
	facts    host.Facts
	settings nodeconfig.Settings
	options  Options
}

func requests(cpu, memory string) func(*scene) {
	return func(s *scene) {
		s.pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
}

func hostPort(protocol corev1.Protocol, ip string, port int32) func(*scene) {
	return func(s *scene) {
		s.pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Protocol: protocol, HostIP: ip, HostPort: port, ContainerPort: 80}}
	}
}

func sctp(loaded bool) func(*scene) { return func(s *scene) { s.facts.SCTP = &loaded } }

func here(p host.Pod) func(*scene) {
	return func(s *scene) { s.facts.Pods = append(s.facts.Pods, p) }
}

func nodePort(protocol corev1.Protocol, port int32) func(*scene) {
	return func(s *scene) {
		s.facts.NodePorts = append(s.facts.NodePorts, host.NodePort{Service: "default/web", Protocol: protocol, Port: port})
	}
}

func listening(l host.Listener) func(*scene) {
	return func(s *scene) { s.facts.Listeners = append(s.facts.Listeners, l) }
}

func sysctls(names ...string) func(*scene) {
	return func(s *scene) {
		s.pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
		for _, n := range names {
			s.pod.Spec.SecurityContext.Sysctls = append(s.pod.Spec.SecurityContext.Sysctls, corev1.Sysctl{Name: n, Value: "1"})
		}
	}
}

func affinity(key string, op corev1.NodeSelectorOperator, values ...string) func(*scene) {
	return func(s *scene) {
		s.pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}},
			}}},
		}}
	}
}

func selector(key, value string) func(*scene) {
	return func(s *scene) { s.pod.Spec.NodeSelector = map[string]string{key: value} }
}

func taint(effect corev1.TaintEffect) func(*scene) {
	return func(s *scene) { s.facts.NodeTaints = []corev1.Taint{{Key: "k", Value: "v", Effect: effect}} }
}

func recursive(mode corev1.RecursiveReadOnlyMode) func(*scene) {
	return func(s *scene) {
		s.pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", RecursiveReadOnly: &mode}}
	}
}

func do(f func(*scene)) func(*scene) { return f }

var (
	advertised = do(func(s *scene) {
		s.facts.Runtime.HandlersOK = true
		s.facts.Runtime.Handlers = map[string]host.RuntimeHandler{"": {UserNamespaces: true, RecursiveReadOnlyMounts: true}, "kata": {}}
	})
	ownUsers = do(func(s *scene) { no := false; s.pod.Spec.HostUsers = &no })
	unmasked = do(func(s *scene) {
		p := corev1.UnmaskedProcMount
		s.pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ProcMount: &p}
	})
	hostNet = do(func(s *scene) { s.pod.Spec.HostNetwork = true })
	strict  = do(func(s *scene) {
		p := corev1.SupplementalGroupsPolicyStrict
		s.pod.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: &p}
	})
	nginx   = host.Listener{Protocol: "TCP", IP: "0.0.0.0", Port: 8080, PID: 7, Process: "nginx"}
	holder  = host.Pod{Namespace: "default", Name: "other", UID: "o", Managed: true, Ready: true, HostPorts: []host.HostPort{{Protocol: "TCP", Port: 8080}}}
	hog     = host.Pod{Namespace: "default", Name: "hog", UID: "h", Managed: true, Ready: true, Requests: corev1.ResourceList{"cpu": resource.MustParse("1500m")}}
	oldSelf = host.Pod{Namespace: "default", Name: "web", UID: "old", Managed: true, Ready: true, HostNetwork: true,
		HostPorts: []host.HostPort{{Protocol: "TCP", Port: 8080}}, Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}}
)

// low makes a resource of the host scarce.
func low(what string) func(*scene) {
	return func(s *scene) {
		switch what {
		case "memory":
			s.facts.MemoryAvailable = 50 << 20
		case "nodefs":
			s.facts.NodeFS = host.Filesystem{Path: "/var/lib/podrun", CapacityBytes: 100 << 30, AvailableBytes: 10<<30 - 1, Inodes: 100, InodesFree: 50}
		case "imagefs":
			s.facts.ImageFS = host.Filesystem{Path: "/var/lib/containerd", CapacityBytes: 100 << 30, AvailableBytes: 15<<30 - 1}
		case "inodes":
			s.facts.NodeFS = host.Filesystem{Path: "/var/lib/podrun", CapacityBytes: 100 << 30, AvailableBytes: 50 << 30, Inodes: 100, InodesFree: 4}
		case "pid":
			s.facts.PIDs = host.PIDs{Max: 1000, Used: 901}
			s.settings.EvictionHard["pid.available"] = "10%"
		}
	}
}

func tolerates(key string) func(*scene) {
	return func(s *scene) {
		s.pod.Spec.Tolerations = append(s.pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
}

func seccomp(name string) func(*scene) {
	return func(s *scene) {
		s.pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &name}}
	}
}

func profiles(p map[string]string) func(*scene) {
	return func(s *scene) { s.facts.SeccompProfiles = p }
}

func appArmor(name string) func(*scene) {
	return func(s *scene) {
		s.pod.Spec.SecurityContext = &corev1.PodSecurityContext{
			AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}}
	}
}

func privileged(s *scene) {
	yes := true
	s.pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
}

func matchName(op corev1.NodeSelectorOperator, name string) func(*scene) {
	return func(s *scene) {
		affinity("x", op)(s)
		s.pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: op, Values: []string{name}}}}}
	}
}

func priority(p int32) func(*scene) { return func(s *scene) { s.pod.Spec.Priority = &p } }

func with(p host.Pod, change func(*host.Pod)) host.Pod { change(&p); return p }
