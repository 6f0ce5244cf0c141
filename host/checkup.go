package host

// Checkup contains the data that only `podrun doctor` requires, in addition to Facts. It marshals
// to stable JSON.
type Checkup struct {
	Root        bool        `json:"root"` // podrun doctor runs as root
	Directories []Directory `json:"directories"`
	// ReadOnlyCgroups are the mount points of cgroup hierarchies that are not writable.
	ReadOnlyCgroups []string `json:"readOnlyCgroups,omitempty"`
	// RuntimePID is the process behind the runtime's socket; 0 if it is unknown.
	// RuntimeLowersOOM reports whether that process may lower the OOM scores of its children
	// (CAP_SYS_RESOURCE); nil if that is unknown.
	RuntimePID       int   `json:"runtimePID,omitempty"`
	RuntimeLowersOOM *bool `json:"runtimeLowersOOM,omitempty"`
	CNI              CNI   `json:"cni"`
	Seccomp          bool  `json:"seccomp"` // the kernel filters system calls
	// Sysctls are the sysctls that limit containers; those that the kernel does not have are
	// omitted.
	Sysctls map[string]int64 `json:"sysctls,omitempty"`
	// Programs maps the names of installed programs that are relevant to podrun to their paths.
	Programs       map[string]string `json:"programs,omitempty"`
	PackageManager string            `json:"packageManager,omitempty"` // apt-get, dnf…
	Systemd        bool              `json:"systemd,omitempty"`        // systemd runs as the first process
	// OtherSockets are CRI sockets of other programs' runtimes (k3s).
	OtherSockets []string `json:"otherSockets,omitempty"`
	// CRIDisabledIn is the containerd configuration file that disables its CRI plugin.
	CRIDisabledIn string `json:"criDisabledIn,omitempty"`
	// Initramfs is true if the root file system is the one to which the kernel unpacks an
	// initramfs, which containers cannot leave with pivot_root(2).
	Initramfs bool `json:"initramfs,omitempty"`
	// SandboxImage describes the runtime's pause image, and whether it is available.
	SandboxImage SandboxImage `json:"sandboxImage"`
}

// Directory is a directory that podrun writes to.
type Directory struct {
	Setting   string `json:"setting"` // the flag that sets it: --root-dir
	Path      string `json:"path"`
	Writable  bool   `json:"writable"`
	Problem   string `json:"problem,omitempty"` // why podrun cannot write to it
	FreeBytes int64  `json:"freeBytes"`
	Full      string `json:"full,omitempty"`     // the resource of which none is left, even for root: space or inodes
	LongName  int64  `json:"longName,omitempty"` // the maximum length of a file name in it
	NoExec    bool   `json:"noExec,omitempty"`   // programs in it cannot be executed
}

// CNI describes how the runtime's network is configured.
type CNI struct {
	ConfDir string   `json:"confDir"`
	BinDirs []string `json:"binDirs"`
	Config  string   `json:"config,omitempty"`  // the file that is used: the first by name
	Network string   `json:"network,omitempty"` // its network's name
	Plugins []string `json:"plugins,omitempty"` // the programs that it calls
	Missing []string `json:"missing,omitempty"` // the plugins that do not exist
	Problem string   `json:"problem,omitempty"` // the problem with the file
	Bridge  bool     `json:"bridge"`            // the common plugins are installed
}

// SandboxImage is the sandbox (pause) image, and whether it is present.
type SandboxImage struct {
	Name    string `json:"name,omitempty"`
	Present *bool  `json:"present,omitempty"` // nil if unknown
}
