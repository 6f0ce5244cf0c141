package host

import "github.com/podrun/podrun/internal/rootless"

// Checkup contains the data that only `podrun doctor` requires. It complements Facts. It marshals
// to stable JSON.
type Checkup struct {
	Root        bool        `json:"root"` // podrun doctor runs as root
	Directories []Directory `json:"directories"`
	// ReadOnlyCgroups are the mount points of cgroup hierarchies to which podrun cannot write.
	ReadOnlyCgroups []string `json:"readOnlyCgroups,omitempty"`
	// RuntimePID is the process behind the runtime's socket; 0 if it is unknown. RuntimeLowersOOM
	// reports whether that process may lower the OOM scores of its children (CAP_SYS_RESOURCE). It
	// is nil if that is unknown.
	RuntimePID       int   `json:"runtimePID,omitempty"`
	RuntimeLowersOOM *bool `json:"runtimeLowersOOM,omitempty"`
	CNI              CNI   `json:"cni"`
	// the kernel can filter system calls
	Seccomp bool `json:"seccomp"`
	// Sysctls are the sysctls that limit containers. It omits those that the kernel does not have.
	Sysctls map[string]int64 `json:"sysctls,omitempty"`
	// Programs maps the names of installed programs that matter to podrun to their paths.
	Programs       map[string]string `json:"programs,omitempty"`
	PackageManager string            `json:"packageManager,omitempty"` // apt-get, dnf…
	Systemd        bool              `json:"systemd,omitempty"`        // systemd runs as the first process
	// OtherSockets are CRI sockets of runtimes that belong to other programs (k3s).
	OtherSockets []string `json:"otherSockets,omitempty"`
	// CRIDisabledIn is a configuration file of containerd that disables containerd's CRI plugin.
	CRIDisabledIn string `json:"criDisabledIn,omitempty"`
	// MissingPrivileges is what podrun is not permitted to do although it runs as root; "" if nothing is missing.
	// PrivilegesHint is the fix.
	MissingPrivileges string `json:"missingPrivileges,omitempty"`
	PrivilegesHint    string `json:"-"`
	// Initramfs is true if the root file system is the one to which the kernel unpacks an
	// initramfs. Containers cannot leave it with pivot_root(2).
	Initramfs bool `json:"initramfs,omitempty"`
	// User describes the ordinary user who runs podrun; nil for root.
	User *UserCheckup `json:"user,omitempty"`
	// SandboxImage is the runtime's pause image, and whether it is available.
	SandboxImage SandboxImage `json:"sandboxImage"`
}

// UserCheckup is what an ordinary user requires of the host.
type UserCheckup struct {
	UID  int                `json:"uid"`
	UIDs []rootless.IDRange `json:"uids"` // the ranges in /etc/subuid and /etc/subgid
	GIDs []rootless.IDRange `json:"gids"`
	// Programs maps newuidmap and newgidmap to their paths, if they are installed.
	Programs map[string]string `json:"programs"`
	// Forbidden is the setting that forbids user namespaces, such as user.max_user_namespaces = 0; "" if none does.
	Forbidden string `json:"forbidden,omitempty"`
	// Running is true if podrun-rootless runs. SingleID is then the reason why it has no subordinate IDs, and Changed is
	// true if the ranges have changed since its start.
	Running  bool   `json:"running"`
	SingleID string `json:"singleID,omitempty"`
	Changed  bool   `json:"changed,omitempty"`
	// Undelegated is the reason why a podrun-rootless that starts now gets no cgroup from systemd; "" if it gets one.
	Undelegated string `json:"undelegated,omitempty"`
	// Lingers reports whether the user's processes survive the end of the last session; nil without systemd.
	Lingers     *bool `json:"lingers,omitempty"`
	NetworkHome bool  `json:"networkHome,omitempty"` // the root directory is on a network file system
}

// Directory is a directory to which podrun writes.
type Directory struct {
	// the flag that sets the directory, such as --root-dir
	Setting   string `json:"setting"`
	Path      string `json:"path"`
	Writable  bool   `json:"writable"`
	Problem   string `json:"problem,omitempty"` // why podrun cannot write to the directory
	FreeBytes int64  `json:"freeBytes"`
	// the resource that is used up, even for root: space or inodes
	Full string `json:"full,omitempty"`
	// the maximum length of a file name in the directory
	LongName int64 `json:"longName,omitempty"`
	NoExec   bool  `json:"noExec,omitempty"` // programs in the directory cannot be executed
}

// CNI describes how the runtime's network is configured.
type CNI struct {
	ConfDir string   `json:"confDir"`
	BinDirs []string `json:"binDirs"`
	// the file that the runtime uses, which is the first one by name
	Config          string   `json:"config,omitempty"`
	Network         string   `json:"network,omitempty"` // its network's name
	Plugins         []string `json:"plugins,omitempty"` // the programs that the file names
	Missing         []string `json:"missing,omitempty"` // those programs that do not exist
	Problem         string   `json:"problem,omitempty"` // the problem with the file
	BridgeInstalled bool     `json:"bridge"`            // the plugin bridge exists, as the common plugins do
}

// SandboxImage is the sandbox (pause) image, and whether it is present.
type SandboxImage struct {
	Name    string `json:"name,omitempty"`
	Present *bool  `json:"present,omitempty"` // nil if unknown
}
