package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strconv"
)

// Layout gives the paths of pods on this host. Its shape is the kubelet's
// (pkg/kubelet/kubelet_getters.go).
type Layout struct {
	RootDir          string // --root-dir, e.g. /var/lib/podrun
	PodLogsDir       string // --pod-logs-dir, e.g. /var/log/pods
	ContainerLogsDir string // --container-logs-dir, e.g. /var/log/containers
	RunDir           string `json:"-"` // shared by podruns of all root directories; empty for /run/podrun
}

// PodsDir holds one directory a pod.
func (l Layout) PodsDir() string { return filepath.Join(l.RootDir, "pods") }

// Pod is the pod's directory.
func (l Layout) Pod(uid string) string { return filepath.Join(l.PodsDir(), uid) }

// Checkpoint is the file with the pod and the objects it used, mode 0600.
func (l Layout) Checkpoint(uid string) string { return filepath.Join(l.Pod(uid), "pod.yaml") }

// MaxCheckpoint bounds a checkpoint, in bytes: several times what the largest
// manifests come to, less than what makes every command slow.
const MaxCheckpoint = 64 << 20

// Journal is the file of the pod's events, one JSON object a line.
func (l Layout) Journal(uid string) string { return filepath.Join(l.Pod(uid), "events.jsonl") }

// EtcHosts is the file mounted at /etc/hosts.
func (l Layout) EtcHosts(uid string) string { return filepath.Join(l.Pod(uid), "etc-hosts") }

// UserNS is the file that holds the pod's range of host IDs, where it has a user
// namespace of its own.
func (l Layout) UserNS(uid string) string { return filepath.Join(l.Pod(uid), "userns") }

// Devices is the file that holds which devices the pod's containers have, where
// they have any.
func (l Layout) Devices(uid string) string { return filepath.Join(l.Pod(uid), "devices") }

// UserNSLength is how many IDs a pod's user namespace has (KEP-127).
const UserNSLength = 1 << 16

// StoppedMark is the file that says who stopped a pod, or for which pod, and what
// to do about it, a line each: a command that waits for the pod must not start it
// again.
func (l Layout) StoppedMark(uid string) string { return filepath.Join(l.Pod(uid), "stopped") }

// Restarted is the file that lists the containers that the last restart of all
// containers of the pod ended, as a JSON list of their IDs.
func (l Layout) Restarted(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~restart-all", "ended")
}

// PendingRestarts is the file that holds which containers podrun kills, or has killed, to
// start them again, and why, as a JSON object by name.
func (l Layout) PendingRestarts(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~restarts", "pending.json")
}

// HookMarks holds one file for each container with a postStart hook, named by the
// container's ID, that says what is known of the hook.
func (l Layout) HookMarks(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~hooks")
}

// ProbeResults is the file that holds what the pod's probes last found, by
// container ID.
func (l Layout) ProbeResults(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~probes", "results.json")
}

// KeptStatus is the file that holds what the pod's owner has written down of its
// status: transition times, and how the pod has ended.
func (l Layout) KeptStatus(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~status", "status.json")
}

// Resize is the file that holds a resize in place that has not ended.
func (l Layout) Resize(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~resize", "resize.json")
}

// Volumes holds the pod's volumes, by plugin.
func (l Layout) Volumes(uid string) string { return filepath.Join(l.Pod(uid), "volumes") }

// Volume is the directory of one volume. Plugin is the kubelet's name of the
// kind, such as kubernetes.io~empty-dir.
func (l Layout) Volume(uid, plugin, name string) string {
	return filepath.Join(l.Volumes(uid), plugin, name)
}

// Plugins holds the plugins' own data of the pod.
func (l Layout) Plugins(uid string) string { return filepath.Join(l.Pod(uid), "plugins") }

// Subpaths holds the bind mounts of volumeMounts with a subPath.
func (l Layout) Subpaths(uid string) string { return filepath.Join(l.Pod(uid), "volume-subpaths") }

// Subpath is the bind mount of the index-th volumeMount of a container.
func (l Layout) Subpath(uid, volume, container string, index int) string {
	return filepath.Join(l.Subpaths(uid), volume, container, strconv.Itoa(index))
}

// Containers holds a directory for each container of the pod.
func (l Layout) Containers(uid string) string { return filepath.Join(l.Pod(uid), "containers") }

// Container holds the termination logs of a container.
func (l Layout) Container(uid, name string) string { return filepath.Join(l.Containers(uid), name) }

// Locks holds the locks of pods and of the node.
func (l Layout) Locks() string { return filepath.Join(l.RootDir, "locks") }

// Reservations holds what is kept free for pods that are to be replaced, updated or
// started again: a file each, which counts while its maker has it locked.
func (l Layout) Reservations() string { return filepath.Join(l.RootDir, "reservations") }

// Owners holds who owns each pod, a file for each namespace/name.
func (l Layout) Owners() string { return filepath.Join(l.RootDir, "owners") }

// Owner is the file that says who owns a pod. It is written under the pod's lock.
func (l Layout) Owner(p Pod) string { return filepath.Join(l.Owners(), p.Namespace+"_"+p.Name) }

// Claims holds a file for each command that works on a pod, which that command
// keeps locked.
func (l Layout) Claims() string { return filepath.Join(l.RootDir, "claims") }

// Serve is the directory of a supervisor: its lock and its state.
func (l Layout) Serve() string { return filepath.Join(l.RootDir, "serve") }

// APISocket is the unix socket of a supervisor's HTTP API. It is below a directory that
// only root can enter, and not below the root directory: a volume of that one, even if it
// is read-only, would give a container access to all pods.
func (l Layout) APISocket() string { return filepath.Join(l.runDir(), "serve", l.id(), "podrun.sock") }

// APILink is a symlink to the socket of the API. Releases without APISocket have the
// socket itself there.
func (l Layout) APILink() string { return filepath.Join(l.Serve(), "podrun.sock") }

// GroupSocket is APISocket for a supervisor that gives a group access to the API.
func (l Layout) GroupSocket() string { return filepath.Join(l.sharedRunDir(), "podrun.sock") }

// StatusSocket is the unix socket for reading metrics and status, and StatusLink a
// symlink to it.
func (l Layout) StatusSocket() string { return filepath.Join(l.sharedRunDir(), "readonly.sock") }

// StatusLink is beside APILink.
func (l Layout) StatusLink() string { return filepath.Join(l.Serve(), "readonly.sock") }

// sharedRunDir is for sockets of other users than root, who cannot enter runDir.
func (l Layout) sharedRunDir() string { return filepath.Join(l.runDir()+"-api", l.id()) }

// RemoteCopies is the directory of the last good contents of URLs that are sources.
func (l Layout) RemoteCopies() string { return filepath.Join(l.Serve(), "remote") }

// ServeLock is locked while a supervisor of this root directory runs.
func (l Layout) ServeLock() string { return filepath.Join(l.Serve(), "lock") }

// Source is the file that keeps which file of a supervisor's manifest directories
// asks for a pod.
func (l Layout) Source(p Pod) string {
	return filepath.Join(l.Sources(), p.Namespace+"_"+p.Name)
}

// Sources is the directory of these files.
func (l Layout) Sources() string { return filepath.Join(l.Serve(), "sources") }

// Unstarted is the file that keeps which pods a supervisor could not start, and why.
func (l Layout) Unstarted() string { return filepath.Join(l.Serve(), "unstarted") }

// Pressure is the file that keeps until when a supervisor takes the node to be under
// pressure, by condition.
func (l Layout) Pressure() string { return filepath.Join(l.Serve(), "pressure") }

// ShuttingDown is the file that is there while the host shuts down, with the ID of its
// boot.
func (l Layout) ShuttingDown() string { return filepath.Join(l.Serve(), "shutdown") }

// ImageUse is the file that keeps when a supervisor saw images used last.
func (l Layout) ImageUse() string { return filepath.Join(l.Serve(), "images") }

// DirIdentities is the file that keeps by what a supervisor knows its manifest
// directories again.
func (l Layout) DirIdentities() string { return filepath.Join(l.Serve(), "directories") }

// ImageBackOff is the directory of what is kept of pulls that failed.
func (l Layout) ImageBackOff() string { return filepath.Join(l.RootDir, "image-backoff") }

// ImageRecords is the directory of what is kept of pulls that succeeded, of the
// kubelet's name.
func (l Layout) ImageRecords() string { return filepath.Join(l.RootDir, "image_manager") }

// PodLock is the file locked while one pod is synced.
func (l Layout) PodLock(p Pod) string {
	return filepath.Join(l.Locks(), p.Namespace+"_"+p.Name)
}

// NodeLock is the file locked during admission. No pod's lock has that name:
// a pod's has an underscore.
func (l Layout) NodeLock() string { return filepath.Join(l.Locks(), "node") }

// Logs is the pod's log directory, the sandbox's log_directory.
func (l Layout) Logs(p Pod) string {
	return filepath.Join(l.PodLogsDir, p.Namespace+"_"+p.Name+"_"+p.UID)
}

// LogPath is a container's log below Logs, the container's log_path.
func LogPath(container string, attempt uint32) string {
	return filepath.Join(container, strconv.FormatUint(uint64(attempt), 10)+".log")
}

// LegacyLog is the symlink to a container's log that log collectors look for. A name
// that is too long for a file system is cut (logSymlink in pkg/kubelet/kuberuntime), so
// that containers of one pod may share it.
func (l Layout) LegacyLog(p Pod, container, containerID string) string {
	return filepath.Join(l.ContainerLogsDir, cutLink(p.Name+"_"+p.Namespace+"_"+container+"-"+containerID)+linkSuffix)
}

// LegacyLogs is the pattern (path/filepath.Glob) of the links of a pod's containers;
// links of other pods may match it too.
func (l Layout) LegacyLogs(p Pod) string {
	return filepath.Join(l.ContainerLogsDir, cutLink(p.Name+"_"+p.Namespace+"_")+"*"+linkSuffix)
}

const linkSuffix = ".log"

// cutLink cuts the name of a link so that it fits with its suffix into 255 characters.
func cutLink(name string) string { return name[:min(len(name), 255-len(linkSuffix))] }

// Private are the directories that hold the state of all pods, among it Secrets, locks and
// sockets; no container should have access to them.
func (l Layout) Private() []string { return []string{l.RootDir, l.runDir()} }

// CgroupLock is a directory that only root can open, mode 0700: podruns of all root
// directories lock it while they change control groups that pods share. It is in
// no root directory, since they have different ones.
func (l Layout) CgroupLock() string { return filepath.Join(l.runDir(), "cgroups") }

func (l Layout) runDir() string {
	if l.RunDir == "" {
		return "/run/podrun"
	}
	return l.RunDir
}

// SecretsDir holds in memory what --secrets=memory keeps off the disk, mode 0700. It is
// below no root directory, and found by the root directory's path.
func (l Layout) SecretsDir() string { return filepath.Join(l.runDir(), "secrets", l.id()) }

// id distinguishes root directories in the directories that they share.
func (l Layout) id() string {
	sum := sha256.Sum256([]byte(l.RootDir))
	return hex.EncodeToString(sum[:8])
}

// SecretPods holds a directory for each pod whose Secrets are kept in memory.
func (l Layout) SecretPods() string { return filepath.Join(l.SecretsDir(), "pods") }

// SecretPod holds a pod's whole checkpoint, in a file that the one on disk names.
func (l Layout) SecretPod(uid string) string { return filepath.Join(l.SecretPods(), uid) }

// SecretCopies is RemoteCopies in memory.
func (l Layout) SecretCopies() string { return filepath.Join(l.SecretsDir(), "remote") }

// Seccomp is the directory of localhost seccomp profiles.
func (l Layout) Seccomp() string { return filepath.Join(l.RootDir, "seccomp") }
