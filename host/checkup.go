package host

// Checkup has the data that only `podrun doctor` needs, in addition to Facts. It
// marshals to stable JSON.
type Checkup struct {
	Root        bool        `json:"root"` // the examiner is root
	Directories []Directory `json:"directories"`
	// ReadOnlyCgroups are the mount points of control groups that cannot be
	// written to.
	ReadOnlyCgroups []string `json:"readOnlyCgroups,omitempty"`
	// RuntimePID is the process behind the runtime's socket; 0 if it is unknown.
	// RuntimeLowersOOM reports whether this process may lower the OOM scores of its
	// children (CAP_SYS_RESOURCE); nil if it is unknown.
	RuntimePID       int   `json:"runtimePID,omitempty"`
	RuntimeLowersOOM *bool `json:"runtimeLowersOOM,omitempty"`
	CNI              CNI   `json:"cni"`
	Seccomp          bool  `json:"seccomp"` // the kernel filters system calls
	// Sysctls are those of /proc/sys that bound containers; one that the kernel
	// does not have is left out.
	Sysctls map[string]int64 `json:"sysctls,omitempty"`
	// Programs are those that are installed, of which podrun could use or should
	// know: name to path.
	Programs       map[string]string `json:"programs,omitempty"`
	PackageManager string            `json:"packageManager,omitempty"` // apt-get, dnf…
	Systemd        bool              `json:"systemd,omitempty"`        // runs as the first process
	// OtherSockets are CRI sockets of other programs' runtimes (k3s).
	OtherSockets []string `json:"otherSockets,omitempty"`
	// CRIDisabledIn is the containerd configuration that turns its CRI off.
	CRIDisabledIn string `json:"criDisabledIn,omitempty"`
	// Initramfs is true if the root file system is the one to which the kernel unpacks an
	// initramfs, which containers cannot leave with pivot_root(2).
	Initramfs bool `json:"initramfs,omitempty"`
	// SandboxImage is how the runtime's pause image is available.
	SandboxImage SandboxImage `json:"sandboxImage"`
}

// Directory is a directory that podrun writes to.
type Directory struct {
	Setting   string `json:"setting"` // the flag that names it: --root-dir
	Path      string `json:"path"`
	Writable  bool   `json:"writable"`
	Problem   string `json:"problem,omitempty"` // why it is not
	FreeBytes int64  `json:"freeBytes"`
	Full      string `json:"full,omitempty"`     // what is used up, for root as well: space or inodes
	LongName  int64  `json:"longName,omitempty"` // the longest name of a file in it
	NoExec    bool   `json:"noExec,omitempty"`   // programs in it cannot be executed
}

// CNI is how the runtime's network is configured.
type CNI struct {
	ConfDir string   `json:"confDir"`
	BinDirs []string `json:"binDirs"`
	Config  string   `json:"config,omitempty"`  // the file that is used: the first by name
	Network string   `json:"network,omitempty"` // its network's name
	Plugins []string `json:"plugins,omitempty"` // the programs that it calls
	Missing []string `json:"missing,omitempty"` // those that do not exist
	Problem string   `json:"problem,omitempty"` // the problem with the file
	Bridge  bool     `json:"bridge"`            // the common plugins are installed
}

// SandboxImage is the sandbox (pause) image, and whether it is present.
type SandboxImage struct {
	Name    string `json:"name,omitempty"`
	Present *bool  `json:"present,omitempty"` // nil if unknown
}
