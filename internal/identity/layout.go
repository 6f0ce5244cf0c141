package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strconv"
)

// Layout provides the paths of pods on this host. Their structure is the kubelet's
// (pkg/kubelet/kubelet_getters.go).
type Layout struct {
	RootDir          string // --root-dir, e.g. /var/lib/podrun
	PodLogsDir       string // --pod-logs-dir, e.g. /var/log/pods
	ContainerLogsDir string // --container-logs-dir, e.g. /var/log/containers
	RunDir           string `json:"-"` // shared by podrun processes of all root directories; "" means /run/podrun
}

// PodsDir is the directory that contains one directory per pod.
func (l Layout) PodsDir() string { return filepath.Join(l.RootDir, "pods") }

// Pod is the pod's directory.
func (l Layout) Pod(uid string) string { return filepath.Join(l.PodsDir(), uid) }

// Checkpoint is the file that contains the pod and the objects that it uses, mode 0600.
func (l Layout) Checkpoint(uid string) string { return filepath.Join(l.Pod(uid), "pod.yaml") }

// MaxCheckpoint is the maximum size of a checkpoint, in bytes. It is several times the size
// of the largest manifests, and small enough not to slow down every command.
const MaxCheckpoint = 64 << 20

// Journal is the file of the pod's events, one JSON object per line.
func (l Layout) Journal(uid string) string { return filepath.Join(l.Pod(uid), "events.jsonl") }

// EtcHosts is the file mounted at /etc/hosts.
func (l Layout) EtcHosts(uid string) string { return filepath.Join(l.Pod(uid), "etc-hosts") }

// UserNS is the file that contains the pod's range of host IDs, if it has its own user
// namespace.
func (l Layout) UserNS(uid string) string { return filepath.Join(l.Pod(uid), "userns") }

// Devices is the file that contains the devices of the pod's containers, if they have any.
func (l Layout) Devices(uid string) string { return filepath.Join(l.Pod(uid), "devices") }

// UserNSLength is the number of IDs in a pod's user namespace (KEP-127).
const UserNSLength = 1 << 16

// StoppedMark is the file that records which command stopped the pod, or for which pod it
// was preempted, and a hint, on one line each. It prevents a command that waits for the pod
// from starting it again.
func (l Layout) StoppedMark(uid string) string { return filepath.Join(l.Pod(uid), "stopped") }

// Restarted is the file that lists, in JSON, the IDs of the containers that podrun stopped
// when it last restarted all containers of the pod.
func (l Layout) Restarted(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~restart-all", "ended")
}

// PendingRestarts is the file that lists the containers that podrun kills, or has killed, in
// order to restart them. It is a JSON object that maps the containers' names to the reasons.
func (l Layout) PendingRestarts(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~restarts", "pending.json")
}

// HookMarks is the directory that contains a file for each container with a postStart hook,
// named after the container's ID, with the state of the hook.
func (l Layout) HookMarks(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~hooks")
}

// State is the file of the pod's state: the recorded part of its status, its last probe
// results, and a resize in progress. Up to schema version 2 it contained only the status. It
// keeps that path because an older podrun checks the version of the file at this path, and
// therefore refuses to change the pod.
func (l Layout) State(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~status", "status.json")
}

// LegacyProbes is the file of the pod's probe results up to schema version 2.
func (l Layout) LegacyProbes(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~probes", "results.json")
}

// LegacyResize is the file of a resize in progress up to schema version 2.
func (l Layout) LegacyResize(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~resize", "resize.json")
}

// Volumes is the directory that contains the pod's volumes, by plugin.
func (l Layout) Volumes(uid string) string { return filepath.Join(l.Pod(uid), "volumes") }

// Volume is the directory of one volume. Plugin is the kubelet's name of the kind, such as
// kubernetes.io~empty-dir.
func (l Layout) Volume(uid, plugin, name string) string {
	return filepath.Join(l.Volumes(uid), plugin, name)
}

// Plugins is the directory of the plugins' own data about the pod.
func (l Layout) Plugins(uid string) string { return filepath.Join(l.Pod(uid), "plugins") }

// Subpaths is the directory of the bind mounts for volumeMounts with a subPath.
func (l Layout) Subpaths(uid string) string { return filepath.Join(l.Pod(uid), "volume-subpaths") }

// Subpath is the bind mount for the index-th volumeMount of a container.
func (l Layout) Subpath(uid, volume, container string, index int) string {
	return filepath.Join(l.Subpaths(uid), volume, container, strconv.Itoa(index))
}

// Containers is the directory that contains one directory per container of the pod.
func (l Layout) Containers(uid string) string { return filepath.Join(l.Pod(uid), "containers") }

// Container is the directory that contains the termination logs of a container.
func (l Layout) Container(uid, name string) string { return filepath.Join(l.Containers(uid), name) }

// Locks is the directory of the locks of pods and of the node.
func (l Layout) Locks() string { return filepath.Join(l.RootDir, "locks") }

// Reservations is the directory of the reservations for pods that will be replaced, updated
// or started again. Each is a file that is valid while the process that created it keeps it
// locked.
func (l Layout) Reservations() string { return filepath.Join(l.RootDir, "reservations") }

// Owners is the directory of the pods' owner records, one file per namespace/name.
func (l Layout) Owners() string { return filepath.Join(l.RootDir, "owners") }

// Owner is the file that records the owner of a pod. It is written while holding the pod's
// lock.
func (l Layout) Owner(p Pod) string { return filepath.Join(l.Owners(), p.Namespace+"_"+p.Name) }

// Histories is the directory of the pods' histories, one file per namespace/name.
func (l Layout) Histories() string { return filepath.Join(l.RootDir, "history") }

// History is the file of the earlier definitions of a pod. It is not in the pod's directory,
// because a pod that is replaced gets another one.
func (l Layout) History(p Pod) string { return filepath.Join(l.Histories(), p.Namespace+"_"+p.Name) }

// Claims is the directory that contains a file for each command that works on a pod. The
// command keeps the file locked.
func (l Layout) Claims() string { return filepath.Join(l.RootDir, "claims") }

// Serve is the supervisor's directory: its lock and its state.
func (l Layout) Serve() string { return filepath.Join(l.RootDir, "serve") }

// APISocket is the unix socket of a supervisor's HTTP API. Only root can enter its parent
// directory. It is not below the root directory: a volume that exposes the root directory,
// even read-only, would give a container access to all pods.
func (l Layout) APISocket() string { return filepath.Join(l.runDir(), "serve", l.id(), "podrun.sock") }

// APILink is a symlink to the API's socket. Releases without APISocket have the socket
// itself at this path.
func (l Layout) APILink() string { return filepath.Join(l.Serve(), "podrun.sock") }

// GroupSocket replaces APISocket if the supervisor gives a group access to the API.
func (l Layout) GroupSocket() string { return filepath.Join(l.sharedRunDir(), "podrun.sock") }

// StatusSocket is the unix socket for reading metrics and status.
func (l Layout) StatusSocket() string { return filepath.Join(l.sharedRunDir(), "readonly.sock") }

// StatusLink is a symlink to StatusSocket.
func (l Layout) StatusLink() string { return filepath.Join(l.Serve(), "readonly.sock") }

// sharedRunDir is for sockets of users other than root, who cannot enter runDir.
func (l Layout) sharedRunDir() string { return filepath.Join(l.runDir()+"-api", l.id()) }

// RemoteCopies is the directory of the last valid content of each URL from which a
// supervisor reads manifests.
func (l Layout) RemoteCopies() string { return filepath.Join(l.Serve(), "remote") }

// ServeLock is the file that a supervisor of this root directory keeps locked while it runs.
func (l Layout) ServeLock() string { return filepath.Join(l.Serve(), "lock") }

// Source is the file that records which file in a supervisor's manifest directories defines
// a pod.
func (l Layout) Source(p Pod) string {
	return filepath.Join(l.Sources(), p.Namespace+"_"+p.Name)
}

// Sources is the directory of the Source files.
func (l Layout) Sources() string { return filepath.Join(l.Serve(), "sources") }

// Unstarted is the file that records which pods a supervisor could not start, and why.
func (l Layout) Unstarted() string { return filepath.Join(l.Serve(), "unstarted") }

// Pressure is the file that records, for each condition, how long a supervisor considers the
// node under pressure.
func (l Layout) Pressure() string { return filepath.Join(l.Serve(), "pressure") }

// ShuttingDown is the file that exists while the host shuts down. It contains the boot ID.
func (l Layout) ShuttingDown() string { return filepath.Join(l.Serve(), "shutdown") }

// ImageUse is the file that records when a supervisor last saw each image in use.
func (l Layout) ImageUse() string { return filepath.Join(l.Serve(), "images") }

// DirIdentities is the file that records how a supervisor recognizes its manifest
// directories.
func (l Layout) DirIdentities() string { return filepath.Join(l.Serve(), "directories") }

// ImageBackOff is the directory of the records of failed pulls.
func (l Layout) ImageBackOff() string { return filepath.Join(l.RootDir, "image-backoff") }

// ImageRecords is the directory of the records of successful pulls; it has the same name as in
// the kubelet.
func (l Layout) ImageRecords() string { return filepath.Join(l.RootDir, "image_manager") }

// PodLock is the file that podrun locks while it changes one pod.
func (l Layout) PodLock(p Pod) string {
	return filepath.Join(l.Locks(), p.Namespace+"_"+p.Name)
}

// NodeLock is the file that podrun locks during admission. Its name never collides with a
// pod's lock, whose name contains an underscore.
func (l Layout) NodeLock() string { return filepath.Join(l.Locks(), "node") }

// Logs is the pod's log directory, which is the sandbox's log_directory.
func (l Layout) Logs(p Pod) string {
	return filepath.Join(l.PodLogsDir, p.Namespace+"_"+p.Name+"_"+p.UID)
}

// LogPath is the path of a container's log relative to Logs, which is the container's
// log_path.
func LogPath(container string, attempt uint32) string {
	return filepath.Join(container, strconv.FormatUint(uint64(attempt), 10)+".log")
}

// LegacyLog is the symlink to a container's log that log collectors look for. A name that is
// too long for a file system is truncated (logSymlink in pkg/kubelet/kuberuntime), so
// several containers of a pod may share a link.
func (l Layout) LegacyLog(p Pod, container, containerID string) string {
	return filepath.Join(l.ContainerLogsDir, cutLink(p.Name+"_"+p.Namespace+"_"+container+"-"+containerID)+linkSuffix)
}

// LegacyLogs is a pattern (path/filepath.Glob) that matches the links of a pod's containers,
// and possibly links of other pods.
func (l Layout) LegacyLogs(p Pod) string {
	return filepath.Join(l.ContainerLogsDir, cutLink(p.Name+"_"+p.Namespace+"_")+"*"+linkSuffix)
}

const linkSuffix = ".log"

// cutLink truncates the name of a link so that it has 255 characters with its suffix.
func cutLink(name string) string { return name[:min(len(name), 255-len(linkSuffix))] }

// Private returns the directories that contain the state of all pods, including Secrets,
// locks and sockets. No container should have access to them.
func (l Layout) Private() []string { return []string{l.RootDir, l.runDir()} }

// CgroupLock is a directory that only root can open, mode 0700. podrun processes of
// all root directories lock it while they change cgroups that pods share, so it is not below a root
// directory.
func (l Layout) CgroupLock() string { return filepath.Join(l.runDir(), "cgroups") }

func (l Layout) runDir() string {
	if l.RunDir == "" {
		return "/run/podrun"
	}
	return l.RunDir
}

// SecretsDir is the directory, in memory, for the data that --secrets=memory keeps off the
// disk, mode 0700. Its name is derived from the root directory's path.
func (l Layout) SecretsDir() string { return filepath.Join(l.runDir(), "secrets", l.id()) }

// id returns a name for the root directory in directories that several root directories
// share.
func (l Layout) id() string {
	sum := sha256.Sum256([]byte(l.RootDir))
	return hex.EncodeToString(sum[:8])
}

// SecretPods is the directory that contains one directory per pod whose Secrets are in
// memory.
func (l Layout) SecretPods() string { return filepath.Join(l.SecretsDir(), "pods") }

// SecretPod is the directory that contains a pod's complete checkpoint, in a file that the
// checkpoint on disk names.
func (l Layout) SecretPod(uid string) string { return filepath.Join(l.SecretPods(), uid) }

// SecretCopies is the equivalent of RemoteCopies in memory.
func (l Layout) SecretCopies() string { return filepath.Join(l.SecretsDir(), "remote") }

// Seccomp is the directory of Localhost seccomp profiles.
func (l Layout) Seccomp() string { return filepath.Join(l.RootDir, "seccomp") }
