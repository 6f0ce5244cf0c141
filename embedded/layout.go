// Package embedded manages the container runtime that podrun includes. It determines the paths
// and the configuration of the runtime, chooses between it and another runtime, and unpacks,
// starts, stops and removes it. Package embedded does not depend on pods.
//
// The runtime is an unmodified containerd from the archive in the binary. It runs as a separate
// daemon, which continues to run when podrun exits. podrun finds it again by its files. Each
// root directory has its own runtime, with a separate socket, state, bridge and subnet.
package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"github.com/podrun/podrun/internal/rootless"
)

// RunDir contains the state of the runtimes of all root directories until the next boot. It is
// not below /run/podrun, which only root can access. The root user of a pod's user namespace is
// not root on the host, but must be able to access the pod's root file system.
const RunDir = "/run/podrun-runtime"

// Layout returns the paths and names of the runtime of one root directory.
type Layout struct {
	RootDir string // --root-dir, absolute
	RunDir  string // empty for RunDir, or the run directory of an ordinary user
}

// ReadLayout returns the layout of a root directory, whose path may have symbolic links.
func ReadLayout(rootDir string) Layout {
	return Layout{RootDir: ReadRealPath(rootDir), RunDir: rootless.RunDir()}
}

// ID returns 8 hex digits. They distinguish the runtimes of different root directories.
func (l Layout) ID() string {
	sum := sha256.Sum256([]byte(l.RootDir))
	return hex.EncodeToString(sum[:4])
}

// Dir is the directory of all files that survive a reboot.
func (l Layout) Dir() string { return filepath.Join(l.RootDir, "runtime") }

// Unpacked is the directory of an unpacked archive. It contains bin, cni, images and share.
func (l Layout) Unpacked(digest string) string { return filepath.Join(l.Dir(), digest) }

// Containerd is containerd's root directory, with images, snapshots and metadata.
func (l Layout) Containerd() string { return filepath.Join(l.Dir(), "containerd") }

// Replaced is the damaged store that podrun replaced last. Only one is kept.
func (l Layout) Replaced() string { return filepath.Join(l.Dir(), "containerd.damaged") }

// Config is containerd's configuration file.
func (l Layout) Config() string { return filepath.Join(l.Dir(), "config.toml") }

// NetworkDir is containerd's CNI configuration directory.
func (l Layout) NetworkDir() string { return filepath.Join(l.Dir(), "cni", "net.d") }

// NetworkFile is the file that configures the pod network.
func (l Layout) NetworkFile() string { return filepath.Join(l.NetworkDir(), "10-podrun.conflist") }

// Addresses is the directory in which the plugin host-local records the addresses in use.
func (l Layout) Addresses() string { return filepath.Join(l.Dir(), "cni", "addresses") }

// Choice is the file that records which runtime the pods of this root directory use.
func (l Layout) Choice() string { return filepath.Join(l.Dir(), "choice.json") }

// Environment is the file with containerd's variables for proxies and certificates.
func (l Layout) Environment() string { return filepath.Join(l.Dir(), "environment") }

// Loaded is the file that records which archives of Images were loaded.
func (l Layout) Loaded() string { return filepath.Join(l.Dir(), "loaded.json") }

// Lock is the file that is locked while podrun unpacks, starts, stops or removes the runtime.
func (l Layout) Lock() string { return filepath.Join(l.Dir(), "lock") }

// Log is containerd's standard error.
func (l Layout) Log() string { return filepath.Join(l.Dir(), "containerd.log") }

// Images is the directory for the user's image archives (*.tar, *.tar.gz). podrun loads them
// when the runtime starts.
func (l Layout) Images() string { return filepath.Join(l.RootDir, "images") }

// Verifier is the directory with the image verifier that containerd runs. It has no other entries.
func (l Layout) Verifier() string { return filepath.Join(l.Dir(), "verifier") }

func (l Layout) runDir() string {
	if l.RunDir == "" {
		return RunDir
	}
	return l.RunDir
}

// State is the directory of files that do not survive a reboot.
func (l Layout) State() string { return filepath.Join(l.runDir(), l.ID()) }

// Socket is containerd's socket. Its path fits into a socket address (108 bytes), whatever the
// root directory is.
func (l Layout) Socket() string { return filepath.Join(l.State(), "containerd.sock") }

// Endpoint is the socket as a CRI endpoint.
func (l Layout) Endpoint() string { return "unix://" + l.Socket() }

// Daemon is the file that identifies the daemon's process.
func (l Layout) Daemon() string { return filepath.Join(l.State(), "daemon.json") }

// Ends is the file that records how the last starts of containerd ended.
func (l Layout) Ends() string { return filepath.Join(l.State(), "ends.json") }

// Tasks is containerd's state directory. It contains bundles and network namespaces.
func (l Layout) Tasks() string { return filepath.Join(l.State(), "state") }

// Shims is the directory of the shims' sockets. containerd limits its path to 42 bytes.
func (l Layout) Shims() string { return filepath.Join(l.State(), "s") }

// OCIRuntime is the state directory of runc, or of the OCI runtime of another handler.
func (l Layout) OCIRuntime(handler string) string { return filepath.Join(l.State(), handler) }

// Bridge is the name of the pods' network interface. It has 15 characters, which is the
// maximum. The CNI network has the same name.
func (l Layout) Bridge() string { return "podrun-" + l.ID() }

// Cgroup is the daemon's cgroup, below --cgroup-root, on hosts without systemd.
func (l Layout) Cgroup() string { return "podrun-runtime-" + l.ID() }

// Unit is the daemon's unit on hosts with systemd. Each start uses a different word in the name
// of the unit. As long as the cgroup of a transient service has shims, systemd keeps the
// service and rejects another one of the same name.
func (l Layout) Unit(word string) string { return l.Cgroup() + "-" + word + ".service" }
