package doctor

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
)

// healthy returns the facts of a host without problems.
func healthy() Input {
	yes := true
	capacity := corev1.ResourceList{
		"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("110"), "ephemeral-storage": resource.MustParse("100Gi"),
	}
	directories := []host.Directory{}
	for _, setting := range []string{"--root-dir", "--pod-logs-dir", "--container-logs-dir"} {
		directories = append(directories, host.Directory{Setting: setting, Path: "/var/" + setting[2:], Writable: true, FreeBytes: 1 << 40, LongName: 255})
	}
	return Input{
		Facts: host.Facts{
			NodeName: "here", OS: "linux", Arch: "amd64", KernelVersion: "6.12.1", Capacity: capacity, MemoryAvailable: 2 << 30,
			NodeFS: host.Filesystem{Path: "/var/lib/podrun", AvailableBytes: 1 << 30}, PIDs: host.PIDs{Max: 32768, Used: 100},
			NodeIPs: []string{"192.0.2.7"}, DefaultRoute: "eth0", ResolvConf: host.ResolvConf{Path: "/etc/resolv.conf", Nameservers: []string{"192.0.2.53"}},
			Cgroup: host.Cgroup{Version: 2, Driver: "systemd", DriverFrom: "runtime", Controllers: []string{"cpu", "memory", "pids"}, MountPoints: map[string]string{"": "/sys/fs/cgroup"}},
			Runtime: host.Runtime{Name: "containerd", Version: "2.1.0", APIVersion: "v1", Endpoint: "unix:///run/c.sock", CNIConfDir: "/etc/cni/net.d", HandlersOK: true,
				Handlers: map[string]host.RuntimeHandler{"": {UserNamespaces: true, RecursiveReadOnlyMounts: true}}},
		},
		Checkup: host.Checkup{
			Root: true, Directories: directories, Seccomp: true, RuntimePID: 7, RuntimeLowersOOM: &yes,
			Sysctls:      map[string]int64{"user.max_user_namespaces": 1000, "fs.inotify.max_user_instances": 128, "fs.inotify.max_user_watches": 65536},
			CNI:          host.CNI{ConfDir: "/etc/cni/net.d", BinDirs: []string{"/opt/cni/bin"}, Config: "/etc/cni/net.d/10-x.conflist", Network: "x", Plugins: []string{"bridge"}, BridgeInstalled: true},
			SandboxImage: host.SandboxImage{Name: "registry.example/pause:3", Present: &yes}, PackageManager: "apt-get", Systemd: true,
			Programs: map[string]string{"containerd": "/usr/bin/containerd"},
		},
		Settings: nodeconfig.Default(), Allocatable: capacity.DeepCopy(),
	}
}

func refuse(reason, message string) func(*Input) {
	return func(in *Input) {
		in.Refusals = append(in.Refusals, problem.Problem{Reason: reason, Message: message, Hint: "the hint"})
	}
}

func down(what string) func(*Input) {
	return func(in *Input) { in.Down, in.DownHint, in.Facts.Runtime = what, "the hint", host.Runtime{} }
}

func crio(in *Input) {
	r := &in.Facts.Runtime
	r.Name, r.Version, r.ConfigFiles = "cri-o", "1.36.3", []string{"/etc/crio/crio.conf"}
	r.MinMemory, r.Ulimits = map[string]int64{"": 12 << 20}, []string{"nofile=1024:2048"}
}

func directory(change func(*host.Directory)) func(*Input) {
	return func(in *Input) { change(&in.Checkup.Directories[1]) }
}

func withCNI(change func(*host.CNI)) func(*Input) {
	return func(in *Input) { change(&in.Checkup.CNI) }
}

func stateFile(s statefile.State) func(*Input) {
	return func(in *Input) {
		in.StateFiles = []*statefile.Fault{{Path: "/x/names.json", What: "the names", State: s, Action: statefile.Rebuild, Err: errors.New("bad")}}
	}
}

func do(f func(*Input)) func(*Input) { return f }

var (
	given = do(func(in *Input) {
		in.Facts.Devices = map[string][]string{"example.com/gpu": {"x.example/gpu=0"}}
		in.Facts.CDI = &host.CDI{Dirs: []string{"/etc/cdi"}, Devices: []string{"x.example/gpu=0"}}
	})
	notInstalled = do(func(in *Input) { in.Checkup.Programs = nil })
	noPlugins    = withCNI(func(c *host.CNI) { *c = host.CNI{ConfDir: "/etc/cni/net.d", BinDirs: []string{"/opt/cni/bin"}} })
)

// cases are faults. Each has its effect on a check: the status, and words in the summary and in
// the fix.
var cases = []struct {
	name         string
	faults       []func(*Input)
	check        string
	status       Status
	summary, fix string
}{
	{"a container without privileges", []func(*Input){down("has not been used yet"), func(in *Input) {
		in.Startable, in.Embedded, in.Checkup.MissingPrivileges, in.Checkup.PrivilegesHint = true, "is stopped", "mount file systems (operation not permitted)", "--privileged"
	}}, "privileges", Fail, "is not permitted to mount file systems (operation not permitted), which pods require", "--privileged"},
	{"a container without privileges, with the socket of a runtime", []func(*Input){func(in *Input) { in.Checkup.MissingPrivileges = "mount file systems" }}, "privileges", Warn, "mount", ""},
	{"an initramfs as root", []func(*Input){func(in *Input) { in.Checkup.Initramfs = true }}, "root-filesystem", Fail, "pivot_root", "switch_root"},
	{"the embedded runtime runs", []func(*Input){func(in *Input) { in.Embedded = "is running" }}, "embedded-runtime", Pass, "is running", ""},
	{"the embedded runtime on noexec", []func(*Input){func(in *Input) { in.Embedded, in.Checkup.Directories[0].NoExec = "is stopped", true }}, "embedded-runtime", Fail, "noexec", "--root-dir"},
	{"the subnet of the embedded runtime", []func(*Input){func(in *Input) { in.Embedded, in.Collision = "is running", "10.64.0.0/24 overlaps 10.64.0.0/16" }}, "embedded-runtime", Warn, "overlaps", "runtime down"},
	{"the embedded runtime is not started", []func(*Input){down("has not been used yet"), func(in *Input) { in.Embedded, in.Startable = "is stopped", true }}, "runtime", Pass, "'podrun apply' starts it", ""},
	{"not root", []func(*Input){func(in *Input) { in.Checkup.Root = false }}, "root", Fail, "must run as root", "sudo"},
	{"a fact is missing", []func(*Input){func(in *Input) { in.Unread = []string{"host: no /proc"} }}, "facts", Fail, "host: no /proc", ""},
	{"a corrupt state file", []func(*Input){stateFile(statefile.Corrupt)}, "state-files", Warn, "cannot use 1 state files: the names: /x/names.json is corrupt: bad (it is derived again", "reapply"},
	{"an unreadable state file", []func(*Input){stateFile(statefile.Unreadable)}, "state-files", Warn, "cannot be read", "check the disk"},
	{"a newer state file", []func(*Input){stateFile(statefile.Newer)}, "state-files", Warn, "names.json has bad", "newer podrun"},
	{"closed directory", []func(*Input){directory(func(d *host.Directory) { d.Writable, d.Problem = false, "read-only file system" })}, "pod-logs-dir", Fail, "read-only file system", "--pod-logs-dir"},
	{"full directory", []func(*Input){directory(func(d *host.Directory) { d.FreeBytes = 1 << 20 })}, "pod-logs-dir", Warn, "1Mi free", "free space"},
	{"no space", []func(*Input){directory(func(d *host.Directory) { d.FreeBytes, d.Full = 0, "space" })}, "pod-logs-dir", Fail, "has no space left", "free space"},
	{"no inodes", []func(*Input){directory(func(d *host.Directory) { d.Full = "inodes" })}, "pod-logs-dir", Fail, "has no inodes left", "free inodes"},
	{"short names", []func(*Input){directory(func(d *host.Directory) { d.LongName = 143 })}, "pod-logs-dir", Warn, "limits file names to 143 bytes", "short"},
	{"a wrong setting", []func(*Input){refuse("InvalidSetting", `maxPods is "x"`)}, "settings", Fail, `maxPods is "x"`, "the hint"},
	{"an odd name", []func(*Input){func(in *Input) { in.Facts.NodeName = "my_host" }}, "node-name", Warn, "my_host", "--hostname-override"},
	{"a kubelet in the way", []func(*Input){refuse("KubeletRunning", "a kubelet runs on this host")}, "kubelet", Fail, "a kubelet runs", "the hint"},
	{"a kubelet elsewhere", []func(*Input){func(in *Input) { in.Facts.Kubelet = &host.KubeletProcess{PID: 9} }}, "kubelet", Pass, "process 9", ""},
	{"all reserved", []func(*Input){func(in *Input) { in.Allocatable["cpu"] = resource.MustParse("0") }}, "allocatable", Warn, "no cpu is left", "systemReserved"},
	{"no more pods", []func(*Input){refuse("OutOfpods", "Node didn't have enough resource: pods")}, "allocatable", Fail, "resource: pods", "the hint"},
	{"memory pressure", []func(*Input){func(in *Input) { in.Pressure = []Pressure{{"MemoryPressure", "low on memory"}} }}, "pressure", Warn, "low on memory; podrun refuses BestEffort pods", "evictionHard"},
	{"disk pressure", []func(*Input){func(in *Input) {
		in.Pressure = []Pressure{{"MemoryPressure", "low on memory"}, {"DiskPressure", "low on disk"}}
	}}, "pressure", Fail, "DiskPressure: low on disk", "podrun image prune"},
	{"swap without limits", []func(*Input){func(in *Input) { in.Facts.SwapTotal = 1 << 30 }}, "swap", Warn, "1Gi of swap", "swapoff"},
	{"swap with limits", []func(*Input){func(in *Input) { in.Facts.SwapTotal, in.Facts.Cgroup.SwapLimits = 1<<30, true }}, "swap", Pass, "1Gi of swap", ""},
	{"few inotify instances", []func(*Input){func(in *Input) { in.Checkup.Sysctls["fs.inotify.max_user_instances"] = 12 }}, "inotify", Warn, "12 inotify instances", "sysctl -w"},

	{"no cgroups", []func(*Input){func(in *Input) { in.Facts.Cgroup.MountPoints = nil }}, "cgroup-version", Fail, "no cgroups", "mount -t cgroup2"},
	{"a controller is missing", []func(*Input){refuse("CgroupControllerMissing", "the cgroup controller memory is not available")}, "cgroup-controllers", Fail, "memory is not", "the hint"},
	{"cgroups are read-only", []func(*Input){func(in *Input) { in.Checkup.ReadOnlyCgroups = []string{"/sys/fs/cgroup"} }}, "cgroups-writable", Fail, "/sys/fs/cgroup is not writable", "privileged"},
	{"two drivers", []func(*Input){refuse("CgroupDriverMismatch", "podrun is set to systemd")}, "cgroup-driver", Fail, "set to systemd", "the hint"},
	{"an unknown driver", []func(*Input){func(in *Input) { in.Facts.Cgroup.DriverFrom = "host" }}, "cgroup-driver", Warn, "assumes systemd", "--cgroup-driver"},

	{"no runtime, installed", []func(*Input){down("/run/c.sock does not exist")}, "runtime", Fail, "does not exist", "systemctl restart containerd"},
	{"no runtime, not installed", []func(*Input){down("/run/c.sock does not exist"), notInstalled}, "runtime", Fail, "does not exist", "apt-get install containerd runc containernetworking-plugins && systemctl enable --now containerd"},
	{"no runtime, nobody knows", []func(*Input){down("x"), notInstalled, func(in *Input) { in.Checkup.PackageManager = "" }}, "runtime", Fail, "x", "the hint"},
	{"Docker's containerd", []func(*Input){down("unknown service"), func(in *Input) { in.Checkup.CRIDisabledIn = "/etc/containerd/config.toml" }}, "runtime", Fail, "unknown service",
		`remove "cri" from disabled_plugins in /etc/containerd/config.toml, then: systemctl restart containerd`},
	{"another runtime", []func(*Input){down("x"), notInstalled, func(in *Input) { in.Checkup.OtherSockets = []string{"/run/k3s/containerd/containerd.sock"} }}, "runtime", Fail, "x",
		"--container-runtime-endpoint unix:///run/k3s"},
	{"no access", []func(*Input){down("connect to /run/c.sock: permission denied")}, "runtime", Fail, "denied", "run as root"},
	{"not ready", []func(*Input){refuse("RuntimeNotReady", "container runtime is not ready")}, "runtime-ready", Fail, "not ready", "the hint"},
	{"no runtime, no readiness", []func(*Input){down("x"), refuse("RuntimeNotReady", "container runtime is not ready")}, "runtime-ready", Skip, "does not answer", ""},
	{"deprecations", []func(*Input){func(in *Input) {
		in.Facts.Runtime.Conditions = []host.RuntimeCondition{{Type: "RuntimeReady", Status: true}, {Type: "ContainerdHasNoDeprecationWarnings", Reason: "ContainerdHasDeprecationWarnings", Message: "cgroup v1"}}
	}}, "runtime-warnings", Warn, "ContainerdHasNoDeprecationWarnings: ContainerdHasDeprecationWarnings cgroup v1", "release notes"},
	{"old", []func(*Input){func(in *Input) { in.Facts.Runtime.Version = "1.5.9" }}, "runtime-version", Warn, "older than 1.6.0", "update"},
	{"unknown runtime", []func(*Input){func(in *Input) { in.Facts.Runtime.Name = "other" }}, "runtime-version", Warn, "not tested with other", ""},
	{"handlers untold", []func(*Input){func(in *Input) { in.Facts.Runtime.HandlersOK = false }}, "handlers", Pass, "does not list", ""},
	{"sandbox image away", []func(*Input){func(in *Input) { no := false; in.Checkup.SandboxImage.Present = &no }}, "sandbox-image", Warn, "pause:3 is not present", "pinned_images.sandbox"},
	{"sandbox image away, 1.x", []func(*Input){func(in *Input) { no := false; in.Checkup.SandboxImage.Present, in.Facts.Runtime.Version = &no, "1.7.2" }}, "sandbox-image", Warn, "pause:3 is not present", "sandbox_image"},
	{"sandbox image away, unnamed", []func(*Input){func(in *Input) { no := false; in.Checkup.SandboxImage = host.SandboxImage{Present: &no} }}, "sandbox-image", Warn, "image is not present", "pinned_images.sandbox"},
	{"sandbox image damaged", []func(*Input){func(in *Input) { in.EmbeddedLost = "containerd has lost the blob sha256:1 of pause" }}, "sandbox-image", Warn, "lost the blob sha256:1 of pause", "podrun runtime up"},
	{"sandbox image replaced", []func(*Input){func(in *Input) { in.EmbeddedSandbox = "pause refers to another image" }}, "sandbox-image", Fail, "pause refers to another image", "podrun runtime up"},
	{"OOM scores", []func(*Input){func(in *Input) { no := false; in.Checkup.RuntimeLowersOOM, in.Facts.Runtime.RestrictsOOM = &no, &no }}, "oom-score", Fail, "CAP_SYS_RESOURCE", "restrict_oom_score_adj = true"},
	{"OOM scores restricted", []func(*Input){func(in *Input) {
		no, yes := false, true
		in.Checkup.RuntimeLowersOOM, in.Facts.Runtime.RestrictsOOM = &no, &yes
	}}, "oom-score", Pass, "does not lower", ""},
	{"OOM scores of another runtime", []func(*Input){func(in *Input) { no := false; in.Checkup.RuntimeLowersOOM = &no }}, "oom-score", Warn, "CAP_SYS_RESOURCE", ""},

	{"a device", []func(*Input){given}, "devices", Pass, "1 configured", ""},
	{"a device without a specification", []func(*Input){given, func(in *Input) { in.Facts.CDI.Devices = nil }}, "devices", Warn, "no CDI specification of /etc/cdi defines x.example/gpu=0", "nvidia-ctk"},
	{"a device, a runtime without CDI", []func(*Input){given, func(in *Input) { no := false; in.Facts.Runtime.CDI = &no }}, "devices", Warn, "does not add CDI devices", "enable_cdi"},
	{"CRI-O's configuration", []func(*Input){crio}, "runtime-config", Pass, "/etc/crio/crio.conf; containers have a memory limit of at least 12Mi; ulimits: nofile=1024:2048", ""},
	{"a broken configuration of CRI-O", []func(*Input){crio, func(in *Input) { in.Facts.Runtime.ConfigProblem = "crio.conf: line 3" }}, "runtime-config", Warn, "line 3", "correct it"},
	{"no configuration of CRI-O", []func(*Input){crio, func(in *Input) { in.Facts.Runtime.ConfigFiles = nil }}, "runtime-config", Skip, "no configuration file", ""},
	{"CRI-O and OOM scores", []func(*Input){crio, func(in *Input) { no := false; in.Checkup.RuntimeLowersOOM, in.Facts.Runtime.RestrictsOOM = &no, &no }}, "oom-score", Fail, "CAP_SYS_RESOURCE", "grant CRI-O the capability"},
	{"CRI-O's plugins are missing", []func(*Input){crio, withCNI(func(c *host.CNI) { c.Missing = []string{"bridge"} })}, "cni", Fail, "not in /opt/cni/bin: bridge", "plugin_dirs in [crio.network]"},
	{"no network", []func(*Input){refuse("NetworkNotReady", "network is not ready"), noPlugins}, "network-ready", Fail, "not ready",
		"apt-get install containernetworking-plugins; mkdir -p /etc/cni/net.d && echo '{\"cniVersion\": \"1.0.0\", "},
	{"no network, but plugins", []func(*Input){refuse("NetworkNotReady", "network is not ready"), noPlugins, withCNI(func(c *host.CNI) { c.BridgeInstalled = true })}, "network-ready", Fail, "not ready", "}' > /etc/cni/net.d/10-podrun.conflist; or set spec.hostNetwork"},
	{"no network in the runtime's directory", []func(*Input){refuse("NetworkNotReady", "network is not ready"), noPlugins, withCNI(func(c *host.CNI) { c.ConfDir = "/opt/net.d" })}, "network-ready", Fail, "not ready", "> /opt/net.d/10-podrun.conflist"},
	{"a network that is not ready", []func(*Input){refuse("NetworkNotReady", "network is not ready")}, "network-ready", Fail, "not ready", "the hint"},
	{"no network wanted", []func(*Input){noPlugins, func(in *Input) { in.HostNetworkOnly = true }}, "network-ready", Pass, "hostNetwork", ""},
	{"plugins are missing", []func(*Input){withCNI(func(c *host.CNI) { c.Missing = []string{"bridge"} })}, "cni", Fail, "requires plugins that are not in /opt/cni/bin: bridge", "containernetworking-plugins"},
	{"the embedded runtime was not used yet", []func(*Input){down("not used yet"), noPlugins, func(in *Input) { in.Startable, in.Embedded = true, "is stopped" }}, "cni", Pass, "when it starts", ""},
	{"plugins are missing, hostNetwork", []func(*Input){withCNI(func(c *host.CNI) { c.Missing = []string{"bridge"} }), func(in *Input) { in.HostNetworkOnly = true }}, "cni", Warn, "not in /opt/cni/bin: bridge", ""},
	{"a broken file", []func(*Input){withCNI(func(c *host.CNI) { c.Problem = "unexpected end" })}, "cni", Fail, "10-x.conflist: unexpected end", "correct it"},
	{"no address", []func(*Input){func(in *Input) { in.Facts.NodeIPs = []string{"127.0.0.1"} }}, "addresses", Warn, "loopback", "--node-ip"},
	{"no route", []func(*Input){func(in *Input) { in.Facts.DefaultRoute = "" }}, "addresses", Warn, "no default route", "ip route"},
	{"no name servers", []func(*Input){func(in *Input) { in.Facts.ResolvConf.Nameservers = nil }}, "resolver", Warn, "no name servers", "--resolv-conf"},
	{"a stub", []func(*Input){func(in *Input) { in.Facts.ResolvConf.Nameservers = []string{"127.0.0.53"} }}, "resolver", Warn, "name server 127.0.0.53", "--resolv-conf"},
	{"four servers", []func(*Input){func(in *Input) {
		in.Facts.ResolvConf.Nameservers = []string{"1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"}
	}}, "resolver", Warn, "the first 3", ""},
	{"no resolver", []func(*Input){func(in *Input) { in.Facts.ResolvConf = host.ResolvConf{} }}, "resolver", Pass, "no file is set", ""},

	{"no seccomp", []func(*Input){func(in *Input) { in.Checkup.Seccomp = false }}, "seccomp", Warn, "does not support seccomp", "CONFIG_SECCOMP"},
	{"no apparmor_parser", []func(*Input){func(in *Input) { in.Facts.AppArmor = true }}, "apparmor", Warn, "apparmor_parser is missing", "apt-get install apparmor"},
	{"apparmor", []func(*Input){func(in *Input) {
		in.Facts.AppArmor, in.Facts.AppArmorProfiles, in.Checkup.Programs["apparmor_parser"] = true, []string{"a"}, "/sbin/apparmor_parser"
	}}, "apparmor", Pass, "1 profiles", ""},
	{"no user namespaces in the kernel", []func(*Input){func(in *Input) { in.Checkup.Sysctls["user.max_user_namespaces"] = 0 }}, "user-namespaces", Pass, "disabled in the kernel", "max_user_namespaces"},
	{"none in the runtime", []func(*Input){func(in *Input) { in.Facts.Runtime.Handlers = nil }}, "user-namespaces", Pass, "not supported by the runtime", "containerd 2.0"},
	{"an old kernel", []func(*Input){func(in *Input) { in.Facts.KernelVersion = "6.1.0-13-amd64" }}, "user-namespaces", Warn, "tmpfs", "6.3"},

	{"another reason", []func(*Input){refuse("TaintToleration", "this host has the taint k")}, "pods-tainttoleration", Fail, "has the taint k", "the hint"},
}

func TestExamine(t *testing.T) {
	for _, f := range Examine(healthy()) {
		if f.Status != Pass {
			t.Errorf("a healthy host: %+v", f)
		}
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			in := healthy()
			for _, fault := range tc.faults {
				fault(&in)
			}
			findings := Examine(in)
			at := slices.IndexFunc(findings, func(f Finding) bool { return f.Check == tc.check })
			if at < 0 {
				t.Fatalf("no finding %s in %+v", tc.check, findings)
			}
			f := findings[at]
			if f.Status != tc.status || !strings.Contains(f.Summary, tc.summary) || !strings.Contains(f.Fix, tc.fix) {
				t.Errorf("got %+v", f)
			}
		})
	}
}

// TestNames checks that each check has a group and a unique name. Scripts use the names.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Examine(healthy()) {
		if f.Check == "" || f.Group == "" || f.Summary == "" || seen[f.Check] {
			t.Errorf("%+v", f)
		}
		seen[f.Check] = true
	}
}

func TestWorst(t *testing.T) {
	for want, statuses := range map[Status][]Status{
		Pass: {Skip, Pass}, Warn: {Pass, Warn, Skip}, Fail: {Warn, Fail, Pass},
	} {
		var findings []Finding
		for _, s := range statuses {
			findings = append(findings, Finding{Status: s})
		}
		if got := Worst(findings); got != want {
			t.Errorf("%v: %s", statuses, got)
		}
	}
}

// TestConflist checks the network configuration that users paste. Its plugins must be in the
// package containernetworking-plugins, and its format must be that of the CNI specification
// 1.0.0.
func TestConflist(t *testing.T) {
	var list struct {
		Version string `json:"cniVersion"`
		Name    string
		Plugins []struct {
			Type string
			IPAM struct{ Type string }
		}
	}
	if err := json.Unmarshal([]byte(conflist), &list); err != nil {
		t.Fatal(err)
	}
	var plugins []string
	for _, p := range list.Plugins {
		plugins = append(plugins, p.Type, p.IPAM.Type)
	}
	if got := strings.Join(plugins, " "); list.Version != "1.0.0" || list.Name == "" || got != "bridge host-local portmap " {
		t.Errorf("%+v: %s", list, got)
	}
	if strings.Contains(conflist, "'") {
		t.Error("the shell would end the quotes")
	}
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if want := "    mkdir -p /etc/cni/net.d && echo '" + conflist + "' > /etc/cni/net.d/10-podrun.conflist\n"; err != nil || !strings.Contains(string(page), want) {
		t.Errorf("docs/troubleshooting.md lacks %s (%v)", want, err)
	}
}
