// Package host contains the facts about the host, as data. Only host/discover reads them
// from the host; planning takes Facts as an argument, so that `podrun plan --facts FILE`
// replays a plan.
package host

import (
	"io/fs"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Facts is a snapshot of the host. It marshals to stable JSON.
type Facts struct {
	NodeName string `json:"nodeName"` // lower case; --hostname-override or the hostname
	Hostname string `json:"hostname"`
	// RootDir is podrun's root directory, with its symlinks resolved; UIDs depend on this path. It
	// is empty for the default directory.
	RootDir       string            `json:"rootDir,omitempty"`
	OS            string            `json:"os"`                      // linux
	Arch          string            `json:"arch"`                    // GOARCH: amd64
	KernelVersion string            `json:"kernelVersion"`           // 6.1.0-13-amd64
	NodeLabels    map[string]string `json:"nodeLabels"`              // --node-labels and the well-known ones
	NodeTaints    []corev1.Taint    `json:"nodeTaints,omitempty"`    // --register-with-taints
	Unschedulable bool              `json:"unschedulable,omitempty"` // never set by podrun; kept for replays

	// Capacity uses the resource names of the API: cpu, memory, ephemeral-storage,
	// hugepages-2Mi…, pods.
	Capacity corev1.ResourceList `json:"capacity"`
	// MemoryAvailable is MemAvailable of /proc/meminfo, in bytes.
	MemoryAvailable int64 `json:"memoryAvailable"`
	SwapTotal       int64 `json:"swapTotal"` // bytes
	// NodeFS is the file system of podrun's root directory, ImageFS that of the runtime's
	// images. Unknown values are zero.
	NodeFS  Filesystem `json:"nodeFS,omitzero"`
	ImageFS Filesystem `json:"imageFS,omitzero"`
	PIDs    PIDs       `json:"pids,omitzero"`
	// Pressure are the pressure conditions that a supervisor has recorded; they persist
	// for a while after the shortage has ended.
	Pressure []corev1.NodeConditionType `json:"pressure,omitempty"`

	// ShuttingDown is true if this host is shutting down, according to a supervisor of
	// this root directory.
	ShuttingDown bool `json:"shuttingDown,omitempty"`

	NodeIPs []string `json:"nodeIPs"` // the primary one first, at most one per family
	// PodSubnets are the pod subnets of the embedded runtime; nil if another runtime is used.
	PodSubnets   []netip.Prefix `json:"podSubnets,omitempty"`
	DefaultRoute string         `json:"defaultRoute,omitempty"` // name of the link of the default route
	ResolvConf   ResolvConf     `json:"resolvConf"`
	EtcHosts     string         `json:"etcHosts,omitempty"` // content of the host's /etc/hosts
	Listeners    []Listener     `json:"listeners,omitempty"`
	// SCTP reports whether the kernel has loaded SCTP; nil unless a pod requests an SCTP port.
	SCTP *bool `json:"sctp,omitempty"`

	Cgroup        Cgroup  `json:"cgroup"`
	HugePageSizes []int64 `json:"hugePageSizes,omitempty"` // bytes, ascending
	// ThermalPaths are the existing paths of
	// /sys/devices/system/cpu/cpu<n>/thermal_throttle, which are hidden from containers.
	ThermalPaths []string `json:"thermalPaths,omitempty"`

	// MaxUserNamespaces is the sysctl user.max_user_namespaces; 0 if the kernel does not have it or
	// it was not read.
	MaxUserNamespaces int64 `json:"maxUserNamespaces,omitempty"`

	AppArmor bool `json:"appArmor,omitempty"` // enabled in the kernel
	SELinux  bool `json:"selinux,omitempty"`
	// AppArmorProfiles are the loaded profiles; nil if they are unreadable.
	AppArmorProfiles []string `json:"appArmorProfiles,omitempty"`
	// SeccompProfiles maps the profiles that pods specify, as paths relative to the profile
	// directory, to their problems; "" means no problem.
	SeccompProfiles map[string]string `json:"seccompProfiles,omitempty"`
	// RealPaths maps paths in pods' volumes and podrun's directories to the paths without
	// symlinks, if these differ.
	RealPaths map[string]string `json:"realPaths,omitempty"`
	// Paths describes the host paths in pods' volumes.
	Paths   map[string]Path `json:"paths,omitempty"`
	Runtime Runtime         `json:"runtime"`
	// Images are those images that pods specify and that are present, by name with tag or digest.
	Images map[string]Image `json:"images,omitempty"`
	// Emulated are the architectures whose programs the kernel runs in an emulator
	// (binfmt_misc), with QEMU's names: aarch64.
	Emulated []string `json:"emulated,omitempty"`
	// Devices maps extended resources to the CDI devices for pods, in the order of
	// assignment (--device).
	Devices map[string][]string `json:"devices,omitempty"`
	// CDI contains the device specifications of this host; nil if pods cannot have devices.
	CDI     *CDI            `json:"cdi,omitempty"`
	Kubelet *KubeletProcess `json:"kubelet,omitempty"` // a kubelet that runs on this host
	Pods    []Pod           `json:"pods,omitempty"`    // all sandboxes of the runtime, including those not created by podrun
	// UserNS maps the UID of each of podrun's pods with a user namespace to the first
	// host ID of its range. The value 0 means that the range cannot be determined, so
	// that no other pod can get one.
	UserNS map[string]uint32 `json:"userNS,omitempty"`
	// Unreadable lists podrun's corrupt state files, whose content is ignored, with the reasons.
	Unreadable []string `json:"unreadable,omitempty"`
	// PodDirs are the directories of podrun's pods. It is empty in a replay.
	PodDirs PodDirs `json:"-"`
}

// Path describes a host path of a volume.
type Path struct {
	Mode    fs.FileMode `json:"mode,omitempty"` // the type of the file, after symlinks
	Symlink bool        `json:"symlink,omitempty"`
	Missing bool        `json:"missing,omitempty"`
	Error   string      `json:"error,omitempty"` // why it is unreadable
	// MountPoint is the mount point of the mount that contains the path or its nearest
	// existing parent, if a pod requests mount propagation. Shared is true if that mount
	// propagates mounts, Slave if it receives them.
	MountPoint string `json:"mountPoint,omitempty"`
	Shared     bool   `json:"shared,omitempty"`
	Slave      bool   `json:"slave,omitempty"`
}

// PodDirs are the directories of podrun's pods.
type PodDirs struct {
	Count   int
	Unnamed []string // names of directories whose checkpoints do not name a pod; most hosts have none
}

// UserNS is a pod's user namespace, stored in a file with the kubelet's name and format
// in the pod's directory.
type UserNS struct {
	UIDs []IDMapping `json:"uidMappings"`
	GIDs []IDMapping `json:"gidMappings"`
}

// IDMapping maps Length IDs of a container to those of the host.
type IDMapping struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

// Filesystem is the usage of a file system, in bytes. Inodes is 0 if the number of inodes
// is not limited (btrfs).
type Filesystem struct {
	Path           string `json:"path"` // a directory on the file system
	CapacityBytes  int64  `json:"capacityBytes"`
	AvailableBytes int64  `json:"availableBytes"` // for users other than root
	Inodes         int64  `json:"inodes,omitempty"`
	InodesFree     int64  `json:"inodesFree,omitempty"`
	Device         uint64 `json:"device,omitempty"` // its device number, which identifies the file system
}

// Image is an image on this host, as reported by the runtime.
type Image struct {
	OS       string `json:"os,omitempty"`   // linux
	Arch     string `json:"arch,omitempty"` // GOARCH: amd64
	UID      *int64 `json:"uid,omitempty"`  // the image's numeric user; 0 if the image specifies none
	Username string `json:"username,omitempty"`
}

// CDI contains the device specifications on this host (Container Device Interface).
type CDI struct {
	Dirs    []string `json:"dirs"`
	Devices []string `json:"devices"` // full names: vendor/class=name
}

// PIDs contains the number of processes and threads on this host, and the limit for them.
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
	Version     int               `json:"version"`               // 1 or 2; 1 for the hybrid layout
	Driver      string            `json:"driver"`                // cgroupfs or systemd
	DriverFrom  string            `json:"driverFrom,omitempty"`  // flag, runtime or host: the origin of the setting
	Controllers []string          `json:"controllers"`           // sorted: cpu, cpuset, hugetlb, memory, pids…
	SwapLimits  bool              `json:"swapLimits,omitempty"`  // memory.memsw.* on v1, memory.swap.max on v2
	MountPoints map[string]string `json:"mountPoints,omitempty"` // controller → mount point; "" is the v2 hierarchy
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
	Endpoint   string                    `json:"endpoint"` // unix:///run/containerd/containerd.sock
	Name       string                    `json:"name"`     // containerd, cri-o
	Version    string                    `json:"version"`
	APIVersion string                    `json:"apiVersion"`
	Conditions []RuntimeCondition        `json:"conditions"`         // RuntimeReady, NetworkReady
	Handlers   map[string]RuntimeHandler `json:"handlers,omitempty"` // by name; "" is the default. Empty if the runtime does not report handlers
	Features   map[string]bool           `json:"features,omitempty"` // StatusResponse.features
	SandboxImg string                    `json:"sandbox,omitempty"`  // the pause image, if the runtime reports it
	HandlersOK bool                      `json:"handlersKnown"`      // whether the runtime itself reported Handlers
	// RestrictsOOM reports whether the runtime accepts that it cannot lower the OOM score of its
	// children (restrict_oom_score_adj); nil if it does not report this.
	RestrictsOOM *bool `json:"restrictsOOM,omitempty"`
	// NoProcMount is true if the runtime always masks /proc.
	NoProcMount bool `json:"noProcMount,omitempty"`
	// CDI reports whether the runtime adds CDI devices to containers; nil if it does not
	// report this.
	CDI        *bool    `json:"cdi,omitempty"`
	CDIDirs    []string `json:"cdiDirs,omitempty"`    // directories of specifications, if the runtime reports them
	CNIConfDir string   `json:"cniConfDir,omitempty"` // if the runtime reports it
	CNIBinDirs []string `json:"cniBinDirs,omitempty"`
	// ConfigFiles are the CRI-O configuration files that podrun read, and ConfigProblem is the
	// reason if one of them is unreadable.
	ConfigFiles   []string `json:"configFiles,omitempty"`
	ConfigProblem string   `json:"configProblem,omitempty"`
	// MinMemory is the minimum memory limit of a container in bytes, by handler, and Ulimits are
	// the ulimits that every container gets: nofile=1024:2048. Both are empty if the runtime has
	// none or does not report them.
	MinMemory      map[string]int64 `json:"minMemory,omitempty"`
	Ulimits        []string         `json:"ulimits,omitempty"`
	ReportedDriver string           `json:"cgroupSaid,omitempty"` // driver in RuntimeConfig or the default handler's options; empty if neither has it
}

// NetworkDir is the directory from which the runtime reads its network configuration: the
// one that it reports, or the default of containerd and CRI-O.
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

// LoadImage returns a hint, in the imperative, on how to load an image on a host without a
// registry.
func (r Runtime) LoadImage() string {
	if r.IsCRIO() {
		return "copy it with 'skopeo copy docker-archive:FILE containers-storage:NAME'"
	}
	return "load it with 'podrun image load'"
}

// LowerOOM returns a hint, in the imperative, on how to make the runtime start sandboxes although
// it may not lower their OOM scores. CRI-O has no setting for this.
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

// KubeletProcess is a kubelet that runs on this host.
type KubeletProcess struct {
	PID           int    `json:"pid"`
	Endpoint      string `json:"endpoint,omitempty"`      // its runtime, from its command line or configuration file; otherwise the default
	CgroupRoot    string `json:"cgroupRoot,omitempty"`    // from the same sources
	SharesRuntime bool   `json:"sharesRuntime,omitempty"` // it uses the same runtime as podrun
	SharesCgroups bool   `json:"sharesCgroups,omitempty"` // it sees this host's cgroups
}

// Pod is a pod in the runtime, with the data for admission: its requests and ports.
type Pod struct {
	Namespace   string              `json:"namespace"`
	Name        string              `json:"name"`
	UID         string              `json:"uid"`
	Managed     bool                `json:"managed"`            // podrun manages it
	RootDir     string              `json:"rootDir,omitempty"`  // the root directory of its owner
	Ready       bool                `json:"ready"`              // its sandbox is ready
	Reserved    bool                `json:"reserved,omitempty"` // admitted by podrun, without a sandbox
	Broken      string              `json:"broken,omitempty"`   // why its checkpoint is unreadable; its requests are then unknown
	HostNetwork bool                `json:"hostNetwork,omitempty"`
	Priority    int32               `json:"priority,omitempty"`
	QOSClass    corev1.PodQOSClass  `json:"qosClass,omitempty"`
	Requests    corev1.ResourceList `json:"requests,omitempty"` // of the whole pod, from its checkpoint
	HostPorts   []HostPort          `json:"hostPorts,omitempty"`
	Devices     map[string][]string `json:"devices,omitempty"`   // assigned CDI devices, by container
	CreatedAt   int64               `json:"createdAt,omitempty"` // ns
}

// HostPort is a host port that a pod requests or occupies.
type HostPort struct {
	Protocol corev1.Protocol `json:"protocol"`
	IP       string          `json:"ip,omitempty"` // empty for all addresses
	Port     int32           `json:"port"`
	Field    string          `json:"-"` // the field that requests it: spec.containers[0].ports[1]
}
