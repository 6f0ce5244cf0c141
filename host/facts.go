// Package host contains the facts about the host, as data. Only host/discover reads them from
// the host. Planning takes Facts as an argument, so that `podrun plan --facts FILE` can replay
// a plan.
package host

import (
	"io/fs"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Facts is a snapshot of the host. It marshals to stable JSON.
type Facts struct {
	// lower case; from --hostname-override or the hostname
	NodeName string `json:"nodeName"`
	Hostname string `json:"hostname"`
	// RootDir is podrun's root directory with its symlinks resolved, because UIDs depend on this
	// path. It is empty for the default directory.
	RootDir       string            `json:"rootDir,omitempty"`
	OS            string            `json:"os"`                      // linux
	Arch          string            `json:"arch"`                    // GOARCH: amd64
	KernelVersion string            `json:"kernelVersion"`           // 6.1.0-13-amd64
	NodeLabels    map[string]string `json:"nodeLabels"`              // labels of --node-labels and the well-known labels
	NodeTaints    []corev1.Taint    `json:"nodeTaints,omitempty"`    // --register-with-taints
	Unschedulable bool              `json:"unschedulable,omitempty"` // podrun never sets it; it exists for replays

	// Capacity uses the resource names of the API: cpu, memory, ephemeral-storage,
	// hugepages-2Mi…, pods.
	Capacity corev1.ResourceList `json:"capacity"`
	// MemoryAvailable is MemAvailable of /proc/meminfo, in bytes.
	MemoryAvailable int64 `json:"memoryAvailable"`
	SwapTotal       int64 `json:"swapTotal"` // bytes
	// NodeFS is the file system of podrun's root directory. ImageFS is the file system of the
	// runtime's images. Values that are unknown are zero.
	NodeFS  Filesystem `json:"nodeFS,omitzero"`
	ImageFS Filesystem `json:"imageFS,omitzero"`
	PIDs    PIDs       `json:"pids,omitzero"`
	// Pressure are the pressure conditions that a supervisor has recorded. They persist for a
	// while after the shortage has ended.
	Pressure []corev1.NodeConditionType `json:"pressure,omitempty"`

	// ShuttingDown is true if a supervisor of this root directory has recorded that this host is
	// shutting down.
	ShuttingDown bool `json:"shuttingDown,omitempty"`

	NodeIPs []string `json:"nodeIPs"` // the primary one first, at most one per family
	// PodSubnets are the pod subnets of the embedded runtime; nil if another runtime is used.
	PodSubnets []netip.Prefix `json:"podSubnets,omitempty"`
	// NodePorts are the node ports of Services in podrun's own network; nil unless a pod requests a host port.
	NodePorts    []NodePort `json:"nodePorts,omitempty"`
	DefaultRoute string     `json:"defaultRoute,omitempty"` // name of the link of the default route
	ResolvConf   ResolvConf `json:"resolvConf"`
	EtcHosts     string     `json:"etcHosts,omitempty"` // content of the host's /etc/hosts
	Listeners    []Listener `json:"listeners,omitempty"`
	// SCTP reports whether the kernel has loaded SCTP; nil unless a pod requests an SCTP port.
	SCTP *bool `json:"sctp,omitempty"`

	// User is the ordinary user who runs podrun; nil for root.
	User *User `json:"user,omitempty"`

	Cgroup        Cgroup  `json:"cgroup"`
	HugePageSizes []int64 `json:"hugePageSizes,omitempty"` // bytes, ascending
	// ThermalPaths are the paths of the form /sys/devices/system/cpu/cpu<n>/thermal_throttle that
	// exist. podrun hides them from containers.
	ThermalPaths []string `json:"thermalPaths,omitempty"`

	// MaxUserNamespaces is the sysctl user.max_user_namespaces. It is 0 if the kernel does not have
	// the sysctl, or if podrun did not read it.
	MaxUserNamespaces int64 `json:"maxUserNamespaces,omitempty"`

	AppArmor bool `json:"appArmor,omitempty"` // the kernel has enabled it
	SELinux  bool `json:"selinux,omitempty"`
	// AppArmorProfiles are the profiles that are loaded; nil if podrun cannot read them.
	AppArmorProfiles []string `json:"appArmorProfiles,omitempty"`
	// SeccompProfiles maps the profiles that pods specify to their problems. The keys are paths
	// relative to the profile directory. The value is "" if the profile has no problem.
	SeccompProfiles map[string]string `json:"seccompProfiles,omitempty"`
	// RealPaths maps paths in pods' volumes, and the paths of podrun's directories, to the paths
	// without symlinks. It omits paths that have none.
	RealPaths map[string]string `json:"realPaths,omitempty"`
	// UnresolvedPaths contains those of these paths whose symlinks podrun could not resolve, with the reasons.
	UnresolvedPaths map[string]string `json:"unresolvedPaths,omitempty"`
	// Paths describes the host paths in pods' volumes.
	Paths   map[string]Path `json:"paths,omitempty"`
	Runtime Runtime         `json:"runtime"`
	// Images are those images that pods specify and that are present. The keys are the names with
	// tag or digest.
	Images map[string]Image `json:"images,omitempty"`
	// Emulated are the architectures whose programs the kernel runs in an emulator (binfmt_misc).
	// They have QEMU's names, such as aarch64.
	Emulated []string `json:"emulated,omitempty"`
	// Devices maps extended resources to the CDI devices that pods can have, in the order in which
	// podrun assigns them (--device).
	Devices map[string][]string `json:"devices,omitempty"`
	// CDI contains the device specifications of this host. It is nil if pods cannot have devices.
	CDI     *CDI            `json:"cdi,omitempty"`
	Kubelet *KubeletProcess `json:"kubelet,omitempty"` // a kubelet that is running on this host
	// all sandboxes of the runtime, including those that podrun did not create
	Pods []Pod `json:"pods,omitempty"`
	// UserNS contains podrun's pods that have a user namespace. It maps the pods' UIDs to the
	// first host IDs of their ranges. The value 0 means that podrun cannot determine the range, so
	// that no other pod can get one.
	UserNS map[string]uint32 `json:"userNS,omitempty"`
	// Unreadable lists the state files that podrun cannot use, with the reasons. podrun ignores their
	// content.
	Unreadable []string `json:"unreadable,omitempty"`
	// PodDirs are the directories of podrun's pods. It is empty in a replay.
	PodDirs PodDirs `json:"-"`
}

// Path describes a host path of a volume.
type Path struct {
	// the type of the file to which symlinks lead
	Mode    fs.FileMode `json:"mode,omitempty"`
	Symlink bool        `json:"symlink,omitempty"`
	Missing bool        `json:"missing,omitempty"`
	Error   string      `json:"error,omitempty"` // why podrun cannot read it
	// If a pod requests mount propagation, MountPoint is the mount point of the mount that
	// contains the path, or its nearest existing parent. Shared is true if that mount propagates
	// mounts, Slave if it receives them.
	MountPoint string `json:"mountPoint,omitempty"`
	Shared     bool   `json:"shared,omitempty"`
	Slave      bool   `json:"slave,omitempty"`
}

// PodDirs are the directories of podrun's pods.
type PodDirs struct {
	Count int
	// names of directories whose checkpoints do not name a pod; most hosts have no such directories
	Unnamed []string
}

// UserNS is a pod's user namespace. It is stored in a file in the pod's directory, which has
// the kubelet's name and format.
type UserNS struct {
	UIDs []IDMapping `json:"uidMappings"`
	GIDs []IDMapping `json:"gidMappings"`
}

// IDMapping maps Length IDs of a container to IDs of the host.
type IDMapping struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

// Filesystem is the usage of a file system, in bytes. Inodes is 0 if the file system does not
// limit the number of inodes (btrfs).
type Filesystem struct {
	Path           string `json:"path"` // a directory on the file system
	CapacityBytes  int64  `json:"capacityBytes"`
	AvailableBytes int64  `json:"availableBytes"` // the bytes that are available to users other than root
	Inodes         int64  `json:"inodes,omitempty"`
	InodesFree     int64  `json:"inodesFree,omitempty"`
	// the device number, which identifies the file system
	Device uint64 `json:"device,omitempty"`
}

// Image is an image on this host, as the runtime reports it.
type Image struct {
	OS   string `json:"os,omitempty"`   // linux
	Arch string `json:"arch,omitempty"` // GOARCH: amd64
	// the ID of the image's user; 0 if the image specifies no user
	UID      *int64 `json:"uid,omitempty"`
	Username string `json:"username,omitempty"`
}

// CDI contains the device specifications on this host (Container Device Interface).
type CDI struct {
	Dirs    []string `json:"dirs"`
	Devices []string `json:"devices"` // full names: vendor/class=name
}

// PIDs contains the number of processes and threads on this host, and the maximum number.
type PIDs struct {
	Max  int64 `json:"max"`
	Used int64 `json:"used"`
}

// ResolvConf is the host's resolver configuration (resolv.conf(5)).
type ResolvConf struct {
	Path        string   `json:"path,omitempty"`
	Nameservers []string `json:"nameservers,omitempty"`
	Searches    []string `json:"searches,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// Listener is a socket of the host that occupies a port.
type Listener struct {
	Protocol corev1.Protocol `json:"protocol"`
	IP       string          `json:"ip"` // 0.0.0.0 and :: are the wildcards
	Port     int32           `json:"port"`
	V6Only   bool            `json:"v6Only,omitempty"` // :: without IPv4
	PID      int             `json:"pid,omitempty"`
	Process  string          `json:"process,omitempty"`
}

// Cgroup describes how cgroups are mounted on this host.
type Cgroup struct {
	Version int    `json:"version"` // 1 or 2; the hybrid layout is 1
	Driver  string `json:"driver"`  // cgroupfs or systemd
	// where the setting comes from: flag, runtime or host
	DriverFrom string `json:"driverFrom,omitempty"`
	// the controllers, sorted: cpu, cpuset, hugetlb, memory, pids…
	Controllers []string `json:"controllers"`
	// the kernel has memory.memsw.* on v1, or memory.swap.max on v2
	SwapLimits bool `json:"swapLimits,omitempty"`
	// maps a controller to its mount point; "" is the v2 hierarchy
	MountPoints map[string]string `json:"mountPoints,omitempty"`
	// Delegated is the cgroup, below the mount point, in which an ordinary user may create those of pods; "" for root
	Delegated string `json:"delegated,omitempty"`
	// Unavailable is the reason why pods have no cgroups; "" if they have
	Unavailable string `json:"unavailable,omitempty"`
}

// Driver names (the kubelet's cgroupDriver).
const (
	DriverCgroupfs = "cgroupfs"
	DriverSystemd  = "systemd"
)

// Has reports whether a controller is mounted.
func (c Cgroup) Has(controller string) bool {
	for _, have := range c.Controllers {
		if have == controller {
			return true
		}
	}
	return false
}

// Runtime contains the properties that the container runtime reports.
type Runtime struct {
	Endpoint   string             `json:"endpoint"` // unix:///run/containerd/containerd.sock
	Name       string             `json:"name"`     // containerd, cri-o
	Version    string             `json:"version"`
	APIVersion string             `json:"apiVersion"`
	Conditions []RuntimeCondition `json:"conditions"` // RuntimeReady, NetworkReady
	// by name; "" is the default handler. It is empty if the runtime does not report handlers
	Handlers map[string]RuntimeHandler `json:"handlers,omitempty"`
	// NewHandlers are handlers that the embedded runtime gets when it is started again, because their
	// programs were installed after it had been started: the path of the program, by name.
	NewHandlers map[string]string `json:"newHandlers,omitempty"`
	Features    map[string]bool   `json:"features,omitempty"` // StatusResponse.features
	SandboxImg  string            `json:"sandbox,omitempty"`  // the pause image, if the runtime reports it
	HandlersOK  bool              `json:"handlersKnown"`      // the runtime itself has reported Handlers
	// RestrictsOOM reports whether the runtime tolerates that it cannot lower the OOM score of its
	// children (restrict_oom_score_adj). It is nil if the runtime does not report this.
	RestrictsOOM *bool `json:"restrictsOOM,omitempty"`
	// NoProcMount is true if the runtime always masks /proc.
	NoProcMount bool `json:"noProcMount,omitempty"`
	// CDI reports whether the runtime adds CDI devices to containers. It is nil if the runtime
	// does not report this.
	CDI *bool `json:"cdi,omitempty"`
	// directories of device specifications, if the runtime reports them
	CDIDirs    []string `json:"cdiDirs,omitempty"`
	CNIConfDir string   `json:"cniConfDir,omitempty"` // the directory, if the runtime reports it
	CNIBinDirs []string `json:"cniBinDirs,omitempty"`
	// ConfigFiles are the CRI-O configuration files that podrun has read. If one of them is
	// unreadable, ConfigProblem is the reason.
	ConfigFiles   []string `json:"configFiles,omitempty"`
	ConfigProblem string   `json:"configProblem,omitempty"`
	// MinMemory is the minimum memory limit of a container in bytes, by handler. Ulimits are the
	// ulimits that every container gets, such as nofile=1024:2048. Both are empty if the runtime
	// has none, or does not report them.
	MinMemory map[string]int64 `json:"minMemory,omitempty"`
	Ulimits   []string         `json:"ulimits,omitempty"`
	// the driver in RuntimeConfig, or in the options of the default handler; empty if neither has it
	ReportedDriver string `json:"cgroupSaid,omitempty"`
}

// NetworkDir is the directory from which the runtime reads its network configuration. This is
// the directory that it reports, or else the default of containerd and CRI-O.
func (r Runtime) NetworkDir() string {
	if r.CNIConfDir == "" {
		return "/etc/cni/net.d"
	}
	return r.CNIConfDir
}

// Containerd is the name of the runtime containerd.
const Containerd = "containerd"

// Containerd1 reports whether the runtime is a containerd 1.x.
func (r Runtime) Containerd1() bool {
	return r.Name == Containerd && strings.HasPrefix(strings.TrimPrefix(r.Version, "v"), "1.")
}

// IsCRIO reports whether the runtime is CRI-O.
func (r Runtime) IsCRIO() bool { return r.Name == "cri-o" }

// LoadImage returns a hint on how to load an image on a host without a registry. The hint is in
// the imperative.
func (r Runtime) LoadImage() string {
	if r.IsCRIO() {
		return "copy it with 'skopeo copy docker-archive:FILE containers-storage:NAME'"
	}
	return "load it with 'podrun image load'"
}

// LowerOOM returns a hint on how to make the runtime start sandboxes although it may not lower
// their OOM scores. The hint is in the imperative. CRI-O has no setting for this.
func (r Runtime) LowerOOM() string {
	if r.IsCRIO() {
		return "grant CRI-O the capability CAP_SYS_RESOURCE"
	}
	return "set restrict_oom_score_adj = true in containerd's CRI configuration, or grant the capability CAP_SYS_RESOURCE"
}

// SandboxKey returns the key of the sandbox (pause) image in the runtime's configuration.
func (r Runtime) SandboxKey() string {
	switch {
	case r.IsCRIO():
		return "pause_image in [crio.image]"
	case r.Containerd1():
		return `sandbox_image in [plugins."io.containerd.grpc.v1.cri"]`
	}
	return "pinned_images.sandbox in [plugins.'io.containerd.cri.v1.images']"
}

// RuntimeCondition is a condition of CRI Status.
type RuntimeCondition struct {
	Type    string `json:"type"`
	Status  bool   `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// RuntimeHandler describes the features of a runtime handler.
type RuntimeHandler struct {
	RecursiveReadOnlyMounts bool `json:"recursiveReadOnlyMounts"`
	UserNamespaces          bool `json:"userNamespaces"`
}

// KubeletProcess is a kubelet that is running on this host.
type KubeletProcess struct {
	PID int `json:"pid"`
	// the runtime of the kubelet, from its command line or configuration file, or else the default
	Endpoint      string `json:"endpoint,omitempty"`
	CgroupRoot    string `json:"cgroupRoot,omitempty"`    // from the same sources as Endpoint
	SharesRuntime bool   `json:"sharesRuntime,omitempty"` // it uses the same runtime as podrun
	SharesCgroups bool   `json:"sharesCgroups,omitempty"` // it has the same view of the cgroups as podrun
}

// Pod is a pod in the runtime, with the data that admission requires: its requests and ports.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Managed   bool   `json:"managed"`            // podrun manages it
	RootDir   string `json:"rootDir,omitempty"`  // root directory of the pod's owner
	Ready     bool   `json:"ready"`              // its sandbox is ready
	Reserved  bool   `json:"reserved,omitempty"` // podrun has admitted it, and it has no sandbox
	// why podrun cannot read its checkpoint; its requests are then unknown
	Broken      string              `json:"broken,omitempty"`
	HostNetwork bool                `json:"hostNetwork,omitempty"`
	Priority    int32               `json:"priority,omitempty"`
	QOSClass    corev1.PodQOSClass  `json:"qosClass,omitempty"`
	Requests    corev1.ResourceList `json:"requests,omitempty"` // requests of the whole pod, from its checkpoint
	HostPorts   []HostPort          `json:"hostPorts,omitempty"`
	Devices     map[string][]string `json:"devices,omitempty"`   // the CDI devices that the pod has, by container
	CreatedAt   int64               `json:"createdAt,omitempty"` // ns
}

// NodePort is a port of the host that podrun forwards for a Service, on all of the host's addresses.
type NodePort struct {
	Service  string          `json:"service"` // namespace/name
	Protocol corev1.Protocol `json:"protocol"`
	Port     int32           `json:"port"`
}

// HostPort is a host port that a pod requests or occupies.
type HostPort struct {
	Protocol corev1.Protocol `json:"protocol"`
	IP       string          `json:"ip,omitempty"` // empty if it is on all addresses
	Port     int32           `json:"port"`
	// the field that requests the port, such as spec.containers[0].ports[1]
	Field string `json:"-"`
}
