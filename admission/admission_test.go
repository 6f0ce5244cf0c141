package admission

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
)

var cases = []struct {
	name  string
	setup []func(*scene)
	// the problems, each in the form "reason: field: message"; if there are none, the pod is admitted
	want []string
}{
	{name: "an ordinary pod"},

	{"uid as a path", []func(*scene){func(s *scene) { s.pod.UID = "../../etc" }}, []string{`FieldValueInvalid: metadata.uid: "../../etc" is not safe in a path`}},
	{"long name", []func(*scene){func(s *scene) { s.pod.Name = strings.Repeat("a", 253) }}, []string{"FieldValueTooLong: metadata.name: the log directory's name, made of namespace, name and uid, has 298 characters, more than the limit of 255"}},
	{"longest name", []func(*scene){func(s *scene) { s.pod.Name = strings.Repeat("a", 210) }}, nil},
	{"unmasked /proc", []func(*scene){unmasked}, nil},
	{"unmasked /proc, masked by the runtime", []func(*scene){unmasked, func(s *scene) { s.facts.Runtime.NoProcMount = true }},
		[]string{"ProcMountNotSupported: spec.containers[0].securityContext.procMount: the runtime is configured to mask /proc in all containers"}},
	{"masked by the runtime", []func(*scene){func(s *scene) { s.facts.Runtime.NoProcMount = true }}, nil},
	{"another podrun's pod", []func(*scene){here(host.Pod{Namespace: "default", Name: "web", UID: "x", RootDir: "/srv/podrun"})}, []string{"AlreadyExists: metadata.name: pod default/web exists in another podrun root directory on this host (uid x)"}},
	{"another podrun's cpu", []func(*scene){requests("1", "1Mi"), here(host.Pod{Namespace: "default", Name: "hog", UID: "h", RootDir: "/srv/podrun", Ready: true, Requests: hog.Requests})},
		[]string{"OutOfcpu: spec: Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"}},
	{"another podrun's port", []func(*scene){hostPort("TCP", "", 8080), here(host.Pod{Namespace: "default", Name: "other", UID: "o", RootDir: "/srv/podrun", Ready: true, HostPorts: holder.HostPorts})},
		[]string{"NodePorts: spec.containers[0].ports[0].hostPort: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: port 8080/TCP of the host is taken by pod default/other"}},
	{"another program's pod", []func(*scene){here(host.Pod{Namespace: "default", Name: "web", UID: "x", Ready: true})}, []string{"AlreadyExists: metadata.name: another program runs a pod default/web on this host (uid x)"}},
	{"another program's pod, ended", []func(*scene){here(host.Pod{Namespace: "default", Name: "web", UID: "x"})}, nil},
	{"pod of another namespace", []func(*scene){here(host.Pod{Namespace: "other", Name: "web", UID: "x", Ready: true})}, nil},

	{"the runtime's cgroup driver", []func(*scene){func(s *scene) {
		s.facts.Cgroup.Driver, s.facts.Runtime.ReportedDriver = "systemd", "systemd"
	}}, nil},
	{"another cgroup driver", []func(*scene){func(s *scene) {
		s.facts.Cgroup.Driver, s.facts.Runtime.ReportedDriver = "cgroupfs", "systemd"
	}}, []string{"CgroupDriverMismatch: : podrun is configured for the cgroupfs cgroup driver, but the runtime uses systemd"}},
	{"another cgroup driver, no groups", []func(*scene){func(s *scene) {
		s.facts.Cgroup.Driver, s.facts.Runtime.ReportedDriver = "cgroupfs", "systemd"
		s.settings.CgroupsPerQOS = false
	}}, nil},

	{"kubelet on the runtime", []func(*scene){func(s *scene) { s.facts.Kubelet = &host.KubeletProcess{PID: 7, SharesRuntime: true} }}, []string{"KubeletRunning: : a kubelet on this host (process 7) uses the same runtime and would remove the pod"}},
	{"kubelet on the runtime, allowed", []func(*scene){func(s *scene) {
		s.facts.Kubelet = &host.KubeletProcess{PID: 7, SharesRuntime: true}
		s.options.AllowKubelet = true
	}}, nil},
	{"kubelet on the cgroups", []func(*scene){func(s *scene) { s.facts.Kubelet = &host.KubeletProcess{PID: 7, SharesCgroups: true, CgroupRoot: "/"} }}, []string{"KubeletRunning: : a kubelet on this host (process 7) uses the same cgroup root and would remove the pod's cgroup"}},
	{"kubelet on other cgroups", []func(*scene){func(s *scene) {
		s.facts.Kubelet = &host.KubeletProcess{PID: 7, SharesCgroups: true, CgroupRoot: "/"}
		s.settings.CgroupRoot = "/podrun"
	}}, nil},

	{"runtime not ready", []func(*scene){func(s *scene) { s.facts.Runtime.Conditions[0].Status = false }}, []string{"RuntimeNotReady: : container runtime is not ready"}},
	{"no conditions", []func(*scene){func(s *scene) { s.facts.Runtime.Conditions = nil }}, []string{
		"RuntimeNotReady: : container runtime is not ready: the runtime does not report why", "NetworkNotReady: : network is not ready: the runtime does not report why"}},
	{"network not ready", []func(*scene){func(s *scene) {
		s.facts.Runtime.Conditions[1] = host.RuntimeCondition{Type: "NetworkReady", Reason: "NetworkPluginNotReady", Message: "cni plugin not initialized"}
	}}, []string{"NetworkNotReady: : network is not ready: NetworkPluginNotReady cni plugin not initialized"}},
	{"network not ready, host's network", []func(*scene){hostNet, func(s *scene) { s.facts.Runtime.Conditions[1].Status = false }}, nil},

	{"handler", []func(*scene){advertised, func(s *scene) { s.handler = "kata" }}, nil},
	{"missing handler", []func(*scene){advertised, func(s *scene) { s.handler = "gvisor" }}, []string{`RuntimeHandlerNotFound: spec.runtimeClassName: the runtime has no handler "gvisor"`}},
	{"handler of a program that was installed later", []func(*scene){advertised, func(s *scene) {
		s.handler, s.facts.Runtime.NewHandlers = "crun", map[string]string{"crun": "/usr/bin/crun"}
	}}, []string{`RuntimeHandlerNotFound: spec.runtimeClassName: the runtime has no handler "crun" yet: /usr/bin/crun was installed after the runtime had been started`}},
	{"handler, runtime does not tell", []func(*scene){func(s *scene) { s.handler = "gvisor" }}, nil},
	{"user namespace", []func(*scene){advertised, ownUsers}, nil},
	{"user namespace on containerd 1.6", []func(*scene){ownUsers}, []string{"UserNamespacesNotSupported: spec.hostUsers: containerd 1.6.20 does not support user namespaces"}},
	{"user namespace, not by the handler", []func(*scene){advertised, ownUsers, func(s *scene) { s.handler = "kata" }}, []string{"UserNamespacesNotSupported: spec.hostUsers: containerd 1.6.20 with the handler kata does not support user namespaces"}},
	{"recursive read-only", []func(*scene){advertised, recursive(corev1.RecursiveReadOnlyEnabled)}, nil},
	{"recursive read-only on containerd 1.6", []func(*scene){recursive(corev1.RecursiveReadOnlyEnabled)}, []string{"RecursiveReadOnlyNotSupported: spec.containers[0].volumeMounts[0].recursiveReadOnly: containerd 1.6.20 does not support recursive read-only mounts"}},
	{"recursive read-only if possible", []func(*scene){recursive(corev1.RecursiveReadOnlyIfPossible)}, nil},
	{"strict groups", []func(*scene){strict}, []string{"SupplementalGroupsPolicyNotSupported: spec.securityContext.supplementalGroupsPolicy: SupplementalGroupsPolicy=Strict is not supported in this node"}},
	{"strict groups, advertised", []func(*scene){strict, func(s *scene) { s.facts.Runtime.Features = map[string]bool{"supplementalGroupsPolicy": true} }}, nil},
	{"no memory controller", []func(*scene){func(s *scene) { s.facts.Cgroup.Controllers = []string{"cpu", "pids"} }}, []string{"CgroupControllerMissing: : the cgroup controller memory is not available"}},
	{"no controllers wanted", []func(*scene){func(s *scene) { s.facts.Cgroup.Controllers, s.settings.CgroupsPerQOS = nil, false }}, nil},

	{"Linux", []func(*scene){selector("kubernetes.io/os", "linux"), func(s *scene) { s.pod.Spec.OS = &corev1.PodOS{Name: "linux"} }}, nil},
	{"Windows", []func(*scene){func(s *scene) { s.pod.Spec.OS = &corev1.PodOS{Name: "windows"} }}, []string{"PodOSNotSupported: spec.os.name: Failed to admit pod as the OS field doesn't match node OS: the pod's OS is windows, this host's is linux"}},
	{"Windows by label", []func(*scene){func(s *scene) { s.pod.Labels = map[string]string{"kubernetes.io/os": "windows"} }},
		[]string{"PodOSSelectorNodeLabelDoesNotMatch: metadata.labels[kubernetes.io/os]: Failed to admit pod as the `kubernetes.io/os` label doesn't match node label: the pod's label is windows, this host's is linux"}},
	{"Windows by selector", []func(*scene){selector("kubernetes.io/os", "windows")}, []string{"NodeAffinity: spec.nodeSelector: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector: this host lacks the labels kubernetes.io/os=windows"}},
	{"node selector", []func(*scene){selector("kubernetes.io/hostname", "here")}, nil},
	{"node selector, architecture", []func(*scene){selector("kubernetes.io/arch", "alpha")}, []string{"NodeAffinity: spec.nodeSelector: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector: this host lacks the labels kubernetes.io/arch=alpha"}},
	{"node selector, other", []func(*scene){selector("disk", "ssd")}, []string{"NodeAffinity: spec.nodeSelector: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector: this host lacks the labels disk=ssd"}},
	{"affinity", []func(*scene){affinity("kubernetes.io/hostname", corev1.NodeSelectorOpIn, "there", "here")}, nil},
	{"affinity, other", []func(*scene){affinity("disk", corev1.NodeSelectorOpExists)}, []string{"NodeAffinity: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector: this host's labels do not match the pod's node affinity"}},
	{"taint", []func(*scene){taint(corev1.TaintEffectNoExecute)}, []string{"TaintToleration: spec.tolerations: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate: this host has k=v:NoExecute"}},
	{"taint, tolerated", []func(*scene){taint(corev1.TaintEffectNoExecute), func(s *scene) {
		s.pod.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
	}}, nil},
	{"taint for the scheduler", []func(*scene){taint(corev1.TaintEffectNoSchedule)}, nil},

	{"all of the CPUs", []func(*scene){requests("2", "1Gi")}, nil},
	{"more than the CPUs", []func(*scene){requests("2001m", "1Gi")}, []string{"OutOfcpu: spec: Node didn't have enough resource: cpu, requested: 2001, used: 0, capacity: 2000"}},
	{"more than what is left", []func(*scene){requests("600m", "1Gi"), here(hog)}, []string{"OutOfcpu: spec: Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000"}},
	{"what is left", []func(*scene){requests("500m", "1Gi"), here(hog)}, nil},
	{"what an ended pod has left", []func(*scene){requests("2", "1Gi"), here(with(hog, func(p *host.Pod) { p.Ready = false }))}, nil},
	{"what is promised", []func(*scene){requests("2", "1Gi"), here(with(hog, func(p *host.Pod) { p.Ready, p.Reserved = false, true }))}, []string{"OutOfcpu: spec: Node didn't have enough resource: cpu, requested: 2000, used: 1500, capacity: 2000"}},
	{"another program's requests", []func(*scene){requests("2", "1Gi"), here(with(hog, func(p *host.Pod) { p.Managed = false }))}, nil},
	{"in place of the old one", []func(*scene){requests("2", "1Gi"), here(oldSelf)}, nil},
	{"memory less eviction", []func(*scene){requests("1", "4Gi")}, []string{"OutOfmemory: spec: Node didn't have enough resource: memory, requested: 4294967296, used: 0, capacity: 4190109696"}},
	{"memory less reservations", []func(*scene){requests("1", "3Gi"), func(s *scene) {
		s.settings.SystemReserved = map[string]string{"memory": "1Gi"}
		s.settings.KubeReserved = map[string]string{"memory": "25%"}
	}}, []string{"OutOfmemory: spec: Node didn't have enough resource: memory, requested: 3221225472, used: 0, capacity: 2042626048"}},
	{"bad reservation", []func(*scene){func(s *scene) { s.settings.SystemReserved = map[string]string{"cpu": "lots"} }}, []string{`InvalidSetting: : systemReserved.cpu is "lots": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`}},
	{"too many pods", []func(*scene){here(hog), func(s *scene) { s.facts.Capacity["pods"] = resource.MustParse("1") }}, []string{"OutOfpods: spec: Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1"}},
	{"extended resource", []func(*scene){func(s *scene) {
		s.pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	}}, []string{"OutOfnvidia.com/gpu: spec: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 0, capacity: 0"}},

	{"free port", []func(*scene){hostPort("TCP", "", 8081), here(holder), listening(nginx)}, nil},
	{"port of a pod", []func(*scene){hostPort("TCP", "", 8080), here(holder)}, []string{"NodePorts: spec.containers[0].ports[0].hostPort: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: port 8080/TCP of the host is taken by pod default/other"}},
	{"node port of a Service", []func(*scene){hostPort("TCP", "127.0.0.1", 30080), nodePort("TCP", 30080)}, []string{"NodePorts: spec.containers[0].ports[0].hostPort: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: port 30080/TCP of the host is taken by the node port of Service default/web"}},
	{"node port of another protocol", []func(*scene){hostPort("UDP", "", 30080), nodePort("TCP", 30080)}, nil},
	{"port of an ended pod", []func(*scene){hostPort("TCP", "", 8080), here(with(holder, func(p *host.Pod) { p.Ready = false }))}, nil},
	{"port of another protocol", []func(*scene){hostPort("UDP", "", 8080), here(holder), listening(nginx)}, nil},
	{"SCTP", []func(*scene){hostPort("SCTP", "", 8080), listening(nginx), sctp(true)}, nil},
	{"SCTP, taken", []func(*scene){hostPort("SCTP", "10.0.0.1", 8080), sctp(true), listening(host.Listener{Protocol: "SCTP", IP: "10.0.0.1", Port: 8080, PID: 9, Process: "mme"})},
		[]string{"NodePorts: spec.containers[0].ports[0].hostPort: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: port 8080/SCTP of the host is taken by process 9 (mme), which listens on 10.0.0.1:8080"}},
	{"SCTP that the kernel has not", []func(*scene){hostPort("SCTP", "", 8080), sctp(false)},
		[]string{"SCTP: spec.containers[0].ports[0].hostPort: SCTP is not available in the kernel (its module may not be loaded): podrun cannot check whether the port is free, and containers may fail to listen on it"}},
	{"port of a process", []func(*scene){hostPort("TCP", "127.0.0.1", 8080), listening(nginx)}, []string{"NodePorts: spec.containers[0].ports[0].hostPort: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: port 8080/TCP of the host is taken by process 7 (nginx), which listens on 0.0.0.0:8080"}},
	{"port on the host's network", []func(*scene){hostNet, hostPort("TCP", "", 8080), listening(nginx)}, []string{"NodePorts: spec.containers[0].ports[0].hostPort: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: port 8080/TCP of the host is taken by process 7 (nginx), which listens on 0.0.0.0:8080"}},
	{"port of the old one", []func(*scene){hostNet, hostPort("TCP", "", 8080), listening(nginx), here(oldSelf)}, nil},
	{"port of a hidden process", []func(*scene){hostPort("TCP", "", 8080), listening(host.Listener{Protocol: "TCP", IP: "::", Port: 8080})}, []string{"NodePorts: spec.containers[0].ports[0].hostPort: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: port 8080/TCP of the host is taken by a process that is not visible to podrun, which listens on [::]:8080"}},

	{"safe sysctls", []func(*scene){sysctls("kernel.shm_rmid_forced", "net/ipv4/tcp_rmem")}, nil},
	{"unsafe sysctl", []func(*scene){sysctls("net.core.somaxconn")}, []string{`SysctlForbidden: spec.securityContext.sysctls[0].name: forbidden sysctl: "net.core.somaxconn" not allowlisted`}},
	{"unsafe sysctl, allowed", []func(*scene){sysctls("net.core.somaxconn"), func(s *scene) { s.settings.AllowedUnsafeSysctls = []string{"kernel.msg*", "net.core.*"} }}, nil},
	{"sysctl of the host", []func(*scene){sysctls("vm.swappiness"), func(s *scene) { s.settings.AllowedUnsafeSysctls = []string{"vm.*"} }}, []string{`SysctlForbidden: spec.securityContext.sysctls[0].name: forbidden sysctl: "vm.swappiness" not allowlisted`}},
	{"safe sysctl on the host's network", []func(*scene){hostNet, sysctls("net.ipv4.tcp_rmem")}, []string{`SysctlForbidden: spec.securityContext.sysctls[0].name: forbidden sysctl: "net.ipv4.tcp_rmem" not allowed with host Net enabled`}},
	{"safe sysctl, old kernel", []func(*scene){sysctls("net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies"), func(s *scene) { s.facts.KernelVersion = "4.14.320" }}, []string{`SysctlForbidden: spec.securityContext.sysctls[0].name: forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted`}},

	{"AppArmor", []func(*scene){func(s *scene) {
		s.pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}}
	}}, []string{"AppArmor: spec.containers[0].securityContext.appArmorProfile: Cannot enforce AppArmor: AppArmor is not enabled on the host"}},
	{"AppArmor, enabled", []func(*scene){func(s *scene) {
		s.facts.AppArmor = true
		s.pod.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/app": "runtime/default"}
	}}, nil},
	{"AppArmor by annotation", []func(*scene){func(s *scene) {
		s.pod.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/app": "runtime/default"}
	}}, []string{"AppArmor: metadata.annotations[container.apparmor.security.beta.kubernetes.io/app]: Cannot enforce AppArmor: AppArmor is not enabled on the host"}},
	{"AppArmor unconfined", []func(*scene){func(s *scene) {
		s.pod.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/app": "unconfined"}
		s.pod.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}}
	}}, nil},

	{"memory pressure, best effort", []func(*scene){low("memory")}, []string{"Evicted: : The node had condition: [MemoryPressure]."}},
	{"memory pressure, burstable", []func(*scene){low("memory"), requests("1", "1Mi")}, nil},
	{"memory pressure, tolerated", []func(*scene){low("memory"), tolerates("node.kubernetes.io/memory-pressure")}, nil},
	{"memory pressure, another toleration", []func(*scene){low("memory"), tolerates("node.kubernetes.io/disk-pressure")}, []string{"Evicted: : The node had condition: [MemoryPressure]."}},
	{"memory pressure, critical", []func(*scene){low("memory"), priority(2000000000)}, nil},
	{"disk pressure", []func(*scene){low("nodefs"), requests("1", "1Mi"), tolerates("node.kubernetes.io/disk-pressure")}, []string{"Evicted: : The node had condition: [DiskPressure]."}},
	{"disk pressure, critical", []func(*scene){low("nodefs"), priority(2000001000)}, nil},
	{"disk pressure, almost critical", []func(*scene){low("nodefs"), priority(1999999999)}, []string{"Evicted: : The node had condition: [DiskPressure]."}},
	{"disk pressure, of a pod that runs", []func(*scene){low("nodefs"), here(with(oldSelf, func(p *host.Pod) { p.UID = uid }))}, nil},
	{"disk pressure, of a pod that is replaced", []func(*scene){low("nodefs"), here(oldSelf)}, []string{"Evicted: : The node had condition: [DiskPressure]."}},
	{"image disk pressure", []func(*scene){low("imagefs"), requests("1", "1Mi")}, []string{"Evicted: : The node had condition: [DiskPressure]."}},
	{"inodes", []func(*scene){low("inodes"), requests("1", "1Mi")}, []string{"Evicted: : The node had condition: [DiskPressure]."}},
	{"a filesystem without a limit of inodes", []func(*scene){func(s *scene) { s.facts.NodeFS = host.Filesystem{CapacityBytes: 100, AvailableBytes: 50} }}, nil},
	{"pid pressure", []func(*scene){low("pid"), requests("1", "1Mi")}, []string{"Evicted: : The node had condition: [PIDPressure]."}},
	{"pids without a threshold", []func(*scene){low("pid"), func(s *scene) { s.settings.EvictionHard = nil }}, nil},
	{"all pressures", []func(*scene){low("pid"), low("memory"), low("nodefs"), low("imagefs"), requests("1", "1Mi")}, []string{"Evicted: : The node had condition: [MemoryPressure DiskPressure PIDPressure]."}},
	{"a threshold of 100% is none", []func(*scene){low("nodefs"), func(s *scene) { s.settings.EvictionHard["nodefs.available"] = "100%" }}, nil},
	{"no threshold", []func(*scene){low("nodefs"), low("memory"), func(s *scene) { s.settings.EvictionHard = nil }}, nil},
	{"bad threshold", []func(*scene){low("imagefs"), func(s *scene) { s.settings.EvictionHard["imagefs.available"] = "a bit" }}, []string{`InvalidSetting: : evictionHard.imagefs.available is "a bit": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`}},

	{"seccomp profile", []func(*scene){seccomp("a.json"), profiles(map[string]string{"a.json": ""})}, nil},
	{"seccomp profile of old facts", []func(*scene){seccomp("a.json")}, nil},
	{"no seccomp profile", []func(*scene){seccomp("a.json"), profiles(map[string]string{"a.json": "open /p/a.json: no such file"})},
		[]string{`CreateContainerError: spec.containers[0].securityContext.seccompProfile.localhostProfile: cannot load seccomp profile "a.json": open /p/a.json: no such file`}},
	{"AppArmor profile not loaded", []func(*scene){appArmor("mine"), func(s *scene) { s.facts.AppArmor, s.facts.AppArmorProfiles = true, []string{"docker-default"} }},
		[]string{`AppArmor: spec.securityContext.appArmorProfile.localhostProfile: Cannot enforce AppArmor: profile "mine" is not loaded`}},
	{"AppArmor profile loaded", []func(*scene){appArmor("mine"), func(s *scene) { s.facts.AppArmor, s.facts.AppArmorProfiles = true, []string{"mine"} }}, nil},
	{"AppArmor profiles that can't be read", []func(*scene){appArmor("mine"), func(s *scene) { s.facts.AppArmor = true }}, nil},
	{"SELinux labels without SELinux", []func(*scene){func(s *scene) {
		s.pod.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"}}
	}}, []string{"SELinux: spec.securityContext.seLinuxOptions: this host has no SELinux: the options have no effect"}},
	{"SELinux labels", []func(*scene){func(s *scene) {
		s.facts.SELinux = true
		s.pod.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"}}
	}}, nil},
	{"privileged", []func(*scene){privileged}, nil},
	{"privileged, disallowed", []func(*scene){privileged, func(s *scene) { s.settings.AllowPrivileged = false }},
		[]string{"FieldValueForbidden: spec.containers[0].securityContext.privileged: privileged containers are disallowed"}},
	{"privileged under baseline", []func(*scene){privileged, hostNet, func(s *scene) { s.settings.PodSecurity = "baseline" }}, []string{
		`PodSecurity: spec: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`,
		`PodSecurity: spec: violates PodSecurity "baseline:latest": privileged (container "app" must not set securityContext.privileged=true)`}},
	{"plain under baseline", []func(*scene){func(s *scene) { s.settings.PodSecurity = "baseline" }}, nil},
	{"plain under restricted", []func(*scene){func(s *scene) { s.settings.PodSecurity = "restricted" }}, []string{
		`PodSecurity: spec: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "app" must set securityContext.allowPrivilegeEscalation=false)`,
		`PodSecurity: spec: violates PodSecurity "restricted:latest": unrestricted capabilities (container "app" must set securityContext.capabilities.drop=["ALL"])`,
		`PodSecurity: spec: violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or container "app" must set securityContext.runAsNonRoot=true)`,
		`PodSecurity: spec: violates PodSecurity "restricted:latest": seccompProfile (pod or container "app" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`}},
	{"an unknown level", []func(*scene){func(s *scene) { s.settings.PodSecurity = "strict" }}, []string{`InvalidSetting: : podSecurity is "strict": privileged, baseline or restricted`}},
	{"more memory than is free now", []func(*scene){requests("1", "1Gi"), func(s *scene) { s.facts.MemoryAvailable = 512 << 20 }},
		[]string{"LowOnmemory: spec: the pod requests 1Gi of memory, but this host has only 512Mi free now"}},
	{"less memory than is free now", []func(*scene){requests("1", "1Gi"), func(s *scene) { s.facts.MemoryAvailable = 2 << 30 }}, nil},
	{"affinity by the node's name", []func(*scene){matchName(corev1.NodeSelectorOpIn, "here")}, nil},
	{"affinity by another node's name", []func(*scene){matchName(corev1.NodeSelectorOpNotIn, "here")}, []string{
		"NodeAffinity: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector: this host's labels do not match the pod's node affinity"}},

	{"every reason", []func(*scene){requests("9", "9Gi"), selector("disk", "ssd"), hostPort("TCP", "", 8080), listening(nginx)}, []string{
		"NodeAffinity: spec.nodeSelector: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector: this host lacks the labels disk=ssd",
		"OutOfcpu: spec: Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 2000",
		"OutOfmemory: spec: Node didn't have enough resource: memory, requested: 9663676416, used: 0, capacity: 4190109696",
		"NodePorts: spec.containers[0].ports[0].hostPort: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: port 8080/TCP of the host is taken by process 7 (nginx), which listens on 0.0.0.0:8080",
	}},
}

func TestCheck(t *testing.T) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := &scene{pod: plain(), facts: largeHost(), settings: nodeconfig.Default()}
			for _, f := range tc.setup {
				f(s)
			}
			var got []string
			for _, p := range Check(Pod{Pod: s.pod, Handler: s.handler}, s.facts, s.settings, s.options) {
				got = append(got, p.Reason+": "+p.Field+": "+p.Message)
				if p.Object != "Pod default/"+s.pod.Name {
					t.Errorf("object %q", p.Object)
				}
			}
			if g, w := strings.Join(got, "\n"), strings.Join(tc.want, "\n"); g != w {
				t.Errorf("got\n%s\nwant\n%s", g, w)
			}
		})
	}
}

// The pods of one command are admitted in order. For each, the replaced pods count as gone, and
// the pods before it count as running.
func TestCheckAll(t *testing.T) {
	arriving := func(name, cpu string, port int32) Pod {
		s := &scene{pod: plain()}
		requests(cpu, "1Mi")(s)
		hostPort("TCP", "", port)(s)
		s.pod.Name, s.pod.UID = name, types.UID("uid-"+name)
		return Pod{Pod: s.pod}
	}
	pods := []Pod{
		arriving("a", "1", 1), arriving("too-big", "1500m", 2), arriving("b", "1", 3),
		arriving("late", "100m", 4), arriving("clash", "0", 1),
	}
	facts := largeHost()
	facts.Pods = []host.Pod{{Namespace: "default", Name: "b", UID: "old", Managed: true, Ready: true,
		Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}, HostPorts: []host.HostPort{{Protocol: "TCP", Port: 1}}}}
	var got []string
	verdicts := CheckAll(pods, facts, nodeconfig.Default(), Options{})
	if clash := verdicts[4].Problems[0].Message; clash != "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: port 1/TCP of the host is taken by pod default/a of the same command" {
		t.Error(clash)
	}
	for _, l := range verdicts {
		var reasons []string
		for _, p := range l.Problems {
			reasons = append(reasons, p.Reason)
		}
		got = append(got, strings.Join(reasons, ","))
	}
	want := "|OutOfcpu||OutOfcpu|NodePorts"
	if g := strings.Join(got, "|"); g != want {
		t.Errorf("got %s, want %s", g, want)
	}
}

func TestOverlap(t *testing.T) {
	for _, tc := range []struct {
		want, have string
		v6only     bool
		overlap    bool
	}{
		{"", "127.0.0.1", false, true},
		{"127.0.0.1", "", false, true},
		{"0.0.0.0", "127.0.0.1", false, true},
		{"127.0.0.1", "127.0.0.2", false, false},
		{"127.0.0.1", "::", false, true},
		{"127.0.0.1", "::", true, false},
		{"::1", "::", true, true},
		{"::1", "0.0.0.0", false, false},
		{"::", "0.0.0.0", false, true},
		{"::1", "::1", false, true},
		{"0.0.0.0", "::1", false, false},
		{"", "::", true, true},
	} {
		if got := overlap(tc.want, tc.have, tc.v6only); got != tc.overlap {
			t.Errorf("overlap(%q, %q, %v) = %v", tc.want, tc.have, tc.v6only, got)
		}
	}
}

// D3: a pod with the UID of another pod joined that pod's sandbox and directories.
func TestD3UIDOfAnotherPod(t *testing.T) {
	other := func(p host.Pod) func(*scene) {
		return func(s *scene) { s.facts.Pods = append(s.facts.Pods, p) }
	}
	for name, test := range map[string]struct {
		here    func(*scene)
		refused bool
	}{
		"a checkpoint's":       {other(host.Pod{Namespace: "default", Name: "vic", UID: uid, Managed: true, Reserved: true}), true},
		"a sandbox's":          {other(host.Pod{Namespace: "default", Name: "vic", UID: uid, Managed: true, Ready: true}), true},
		"of another namespace": {other(host.Pod{Namespace: "shop", Name: "web", UID: uid, Managed: true, Ready: true}), true},
		"not podrun's":         {other(host.Pod{Namespace: "kube-system", Name: "dns", UID: uid, Ready: true}), true},
		"not podrun's, ended":  {other(host.Pod{Namespace: "kube-system", Name: "dns", UID: uid}), true},
		"another podrun's":     {other(host.Pod{Namespace: "default", Name: "vic", UID: uid, RootDir: "/other"}), true},
		"its own":              {other(host.Pod{Namespace: "default", Name: "web", UID: uid, Managed: true, Ready: true}), false},
		"another UID":          {other(host.Pod{Namespace: "default", Name: "vic", UID: "other", Managed: true, Ready: true}), false},
	} {
		s := &scene{pod: plain(), facts: largeHost()}
		test.here(s)
		got := Check(Pod{Pod: s.pod}, s.facts, s.settings, s.options)
		refused := slices.ContainsFunc(got, func(p problem.Problem) bool {
			return p.Field == "metadata.uid" && p.Reason == "AlreadyExists" && !p.Warning
		})
		if refused != test.refused {
			t.Errorf("%s: %v", name, got)
		}
	}
	second := plain()
	second.Namespace = "other"
	verdicts := CheckAll([]Pod{{Pod: plain()}, {Pod: second}}, largeHost(), nodeconfig.Settings{}, Options{})
	if len(verdicts[0].Problems.Errors()) > 0 || !strings.Contains(verdicts[1].Problems.String(), `Pod other/web: metadata.uid: "`+uid+`" is the UID of pod default/web (remove metadata.uid`) {
		t.Errorf("%v", verdicts)
	}
}
