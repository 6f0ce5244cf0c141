// Package embedded manages the container runtime that podrun includes: its paths, the
// choice between it and another runtime, its configuration, and how it is unpacked,
// started, stopped and removed. It has no knowledge of pods.
//
// The runtime is an unmodified containerd from the archive in the binary. It runs as a
// separate daemon, which continues to run when podrun exits; podrun finds it again by its
// files. There is one for each root directory, each with a separate socket, state, bridge
// and subnet.
package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
)

// RunDir holds the state of the runtimes of all root directories until the next boot.
// It is not below /run/podrun, which only root may enter: the root user of a pod's user
// namespace must reach the pod's root file system below it.
const RunDir = "/run/podrun-runtime"

// Layout gives the paths and names of the runtime of one root directory.
type Layout struct {
	RootDir string // --root-dir, absolute
	RunDir  string // empty for RunDir
}

// ID distinguishes runtimes of different root directories: 8 hex digits.
func (l Layout) ID() string {
	sum := sha256.Sum256([]byte(l.RootDir))
	return hex.EncodeToString(sum[:4])
}

// Dir holds everything that survives a reboot.
func (l Layout) Dir() string { return filepath.Join(l.RootDir, "runtime") }

// Unpacked is the directory of an archive: bin, cni, images and share.
func (l Layout) Unpacked(digest string) string { return filepath.Join(l.Dir(), digest) }

// Containerd is containerd's root: images, snapshots, metadata.
func (l Layout) Containerd() string { return filepath.Join(l.Dir(), "containerd") }

// Config is containerd's configuration.
func (l Layout) Config() string { return filepath.Join(l.Dir(), "config.toml") }

// NetworkDir is containerd's CNI configuration directory, and NetworkFile its file.
func (l Layout) NetworkDir() string { return filepath.Join(l.Dir(), "cni", "net.d") }

// NetworkFile has the network of the pods.
func (l Layout) NetworkFile() string { return filepath.Join(l.NetworkDir(), "10-podrun.conflist") }

// Addresses is where host-local keeps which addresses are in use.
func (l Layout) Addresses() string { return filepath.Join(l.Dir(), "cni", "addresses") }

// Choice is the file that keeps which runtime the pods of this root directory use.
func (l Layout) Choice() string { return filepath.Join(l.Dir(), "choice.json") }

// Environment is the file of the variables for proxies and certificates that containerd gets.
func (l Layout) Environment() string { return filepath.Join(l.Dir(), "environment") }

// Loaded is the file that keeps which archives of Images were loaded.
func (l Layout) Loaded() string { return filepath.Join(l.Dir(), "loaded.json") }

// Lock is locked while the runtime is unpacked, started, stopped or removed.
func (l Layout) Lock() string { return filepath.Join(l.Dir(), "lock") }

// Log is what containerd writes to its standard error.
func (l Layout) Log() string { return filepath.Join(l.Dir(), "containerd.log") }

// Images is where a user puts image archives (*.tar, *.tar.gz) that are loaded when the
// runtime is started.
func (l Layout) Images() string { return filepath.Join(l.RootDir, "images") }

func (l Layout) runDir() string {
	if l.RunDir == "" {
		return RunDir
	}
	return l.RunDir
}

// State holds what does not survive a reboot.
func (l Layout) State() string { return filepath.Join(l.runDir(), l.ID()) }

// Socket is containerd's. Its path fits into a socket address (108 bytes) whatever the
// root directory is.
func (l Layout) Socket() string { return filepath.Join(l.State(), "containerd.sock") }

// Endpoint is the socket as a CRI endpoint.
func (l Layout) Endpoint() string { return "unix://" + l.Socket() }

// Daemon is the file that says which process runs.
func (l Layout) Daemon() string { return filepath.Join(l.State(), "daemon.json") }

// Tasks is containerd's state: bundles and network namespaces.
func (l Layout) Tasks() string { return filepath.Join(l.State(), "state") }

// Shims is where shims listen. containerd takes at most 42 bytes.
func (l Layout) Shims() string { return filepath.Join(l.State(), "s") }

// Runc is runc's state.
func (l Layout) Runc() string { return filepath.Join(l.State(), "runc") }

// Bridge is the network interface of the pods: 15 characters, as many as one may have.
// The CNI network has the same name.
func (l Layout) Bridge() string { return "podrun-" + l.ID() }

// Cgroup is the control group of the daemon, below --cgroup-root, where systemd does
// not run.
func (l Layout) Cgroup() string { return "podrun-runtime-" + l.ID() }

// Unit is the daemon's service, where systemd runs. Each start has one of its own, with
// another word in its name: systemd keeps a transient service, and refuses another of its
// name, while shims are in its control group.
func (l Layout) Unit(word string) string { return l.Cgroup() + "-" + word + ".service" }
