package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strconv"

	"github.com/podrun/podrun/internal/rootless"
)

// Layout contains the paths of pods on this host. Their structure is the kubelet's
// (pkg/kubelet/kubelet_getters.go). A path never leaves its directory, whatever the names are (pathName).
type Layout struct {
	RootDir          string // --root-dir, e.g. /var/lib/podrun
	PodLogsDir       string // --pod-logs-dir, e.g. /var/log/pods
	ContainerLogsDir string // --container-logs-dir, e.g. /var/log/containers
	RunDir           string `json:"-"` // shared by podrun processes of all root directories; "" means /run/podrun
}

// PodsDir is the directory that contains one directory per pod.
func (l Layout) PodsDir() string { return filepath.Join(l.RootDir, "pods") }

// Pod is the pod's directory.
func (l Layout) Pod(uid string) string { return filepath.Join(l.PodsDir(), pathName(uid)) }

// Checkpoint is the file with the pod and the objects that the pod uses. Its mode is 0600.
func (l Layout) Checkpoint(uid string) string { return filepath.Join(l.Pod(uid), "pod.yaml") }

// MaxCheckpoint is the maximum size of a checkpoint, in bytes. It is several times the size of the
// largest manifests. A checkpoint of this size does not yet make every command slow.
const MaxCheckpoint = 64 << 20

// Journal is the file of the pod's events, one JSON object per line.
func (l Layout) Journal(uid string) string { return filepath.Join(l.Pod(uid), "events.jsonl") }

// EtcHosts is the file that is mounted at /etc/hosts.
func (l Layout) EtcHosts(uid string) string { return filepath.Join(l.Pod(uid), "etc-hosts") }

// UserNS is the file with the pod's range of host IDs. It exists if the pod has its own user
// namespace.
func (l Layout) UserNS(uid string) string { return filepath.Join(l.Pod(uid), "userns") }

// Devices is the file with the devices of the pod's containers. It exists if one of them has a
// device.
func (l Layout) Devices(uid string) string { return filepath.Join(l.Pod(uid), "devices") }

// UserNSLength is the number of IDs in a pod's user namespace (KEP-127).
const UserNSLength = 1 << 16

// StoppedMark is a file with two lines. The first is the reason why the pod was stopped: the
// command that stopped it, or the pod for which it was preempted. The second is a hint. A command
// that waits for the pod does not start it again if this file exists.
func (l Layout) StoppedMark(uid string) string { return filepath.Join(l.Pod(uid), "stopped") }

// Restarted is the JSON file with the IDs of the containers that podrun stopped when it last restarted all containers
// of the pod.
func (l Layout) Restarted(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~restart-all", "ended")
}

// PendingRestarts is the file that lists the containers that podrun kills, or has killed, in
// order to restart them. It contains a JSON object that maps the containers' names to the reasons.
func (l Layout) PendingRestarts(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~restarts", "pending.json")
}

// HookMarks is the directory that contains a file with the state of the hook for each container with a postStart
// hook. The file's name is the container's ID.
func (l Layout) HookMarks(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~hooks")
}

// State is the file with the pod's state: the recorded part of its status, its last probe results,
// and a resize in progress. Up to schema version 2, it contained only the status. Its path has not
// changed since then, so that an older podrun checks the version of the file at this path, and
// refuses to change the pod.
func (l Layout) State(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~status", "status.json")
}

// LegacyProbes is the file with the pod's probe results up to schema version 2.
func (l Layout) LegacyProbes(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~probes", "results.json")
}

// LegacyResize is the file with a resize in progress up to schema version 2.
func (l Layout) LegacyResize(uid string) string {
	return filepath.Join(l.Plugins(uid), "podrun.dev~resize", "resize.json")
}

// Volumes is the directory with the pod's volumes, by plugin.
func (l Layout) Volumes(uid string) string { return filepath.Join(l.Pod(uid), "volumes") }

// Volume is the directory of one volume. plugin is the kubelet's name of the kind, such as
// kubernetes.io~empty-dir.
func (l Layout) Volume(uid, plugin, name string) string {
	return filepath.Join(l.Volumes(uid), pathName(plugin), pathName(name))
}

// Plugins is the directory of the plugins' own data about the pod.
func (l Layout) Plugins(uid string) string { return filepath.Join(l.Pod(uid), "plugins") }

// PluginData is a plugin's own data about one volume.
func (l Layout) PluginData(uid, plugin, name string) string {
	return filepath.Join(l.Plugins(uid), pathName(plugin), pathName(name))
}

// Subpaths is the directory of the bind mounts for volumeMounts with a subPath.
func (l Layout) Subpaths(uid string) string { return filepath.Join(l.Pod(uid), "volume-subpaths") }

// Subpath is the path of the bind mount for the volumeMount with the given index in a container.
func (l Layout) Subpath(uid, volume, container string, index int) string {
	return filepath.Join(l.Subpaths(uid), pathName(volume), pathName(container), strconv.Itoa(index))
}

// Containers is the directory that contains one directory per container of the pod.
func (l Layout) Containers(uid string) string { return filepath.Join(l.Pod(uid), "containers") }

// Container is the directory with the termination logs of a container.
func (l Layout) Container(uid, name string) string {
	return filepath.Join(l.Containers(uid), pathName(name))
}

// Locks is the directory of the locks of pods and of the node.
func (l Layout) Locks() string { return filepath.Join(l.RootDir, "locks") }

// Reservations is the directory of the reservations for pods that commands will replace, update or start
// again. Each reservation is a file, which is valid while the process that created it holds the file's
// lock.
func (l Layout) Reservations() string { return filepath.Join(l.RootDir, "reservations") }

// Owners is the directory of the pods' owner records, one file per namespace/name.
func (l Layout) Owners() string { return filepath.Join(l.RootDir, "owners") }

// Owner is the file that records the owner of a pod. podrun writes it only while it holds the
// pod's lock.
func (l Layout) Owner(p Pod) string { return filepath.Join(l.Owners(), PairName(p.Namespace, p.Name)) }

// Services is the directory of the Services, one file per namespace/name. It exists if podrun has
// ever stored a Service.
func (l Layout) Services() string { return filepath.Join(l.RootDir, "services") }

// Service is the file with a Service, its virtual IPs and its node ports.
func (l Layout) Service(id Pod) string {
	return filepath.Join(l.Services(), PairName(id.Namespace, id.Name))
}

// ServiceEvents is the directory with the journals of Services, one directory per namespace/name. It is not in the
// directory of the Services, because older releases read each file there as a Service.
func (l Layout) ServiceEvents() string { return filepath.Join(l.RootDir, "service-events") }

// ServiceJournal is the file of a Service's events, one JSON object per line.
func (l Layout) ServiceJournal(id Pod) string {
	return filepath.Join(l.ServiceEvents(), PairName(id.Namespace, id.Name), "events.jsonl")
}

// ServiceRanges is the file with the ranges of virtual IPs.
func (l Layout) ServiceRanges() string { return filepath.Join(l.Services(), "ranges.json") }

// ServiceNames is the file with the names of Services for the pods' hosts files.
func (l Layout) ServiceNames() string { return filepath.Join(l.Services(), "names.json") }

// podrun holds ServicesLock while it changes Services or their rules, and ServiceNamesLock while it
// writes their names to hosts files. A process that acquires both must acquire ServiceNamesLock
// last, and holds it only for milliseconds.
func (l Layout) ServicesLock() string { return filepath.Join(l.Locks(), "services") }

// ServiceNamesLock is described at ServicesLock.
func (l Layout) ServiceNamesLock() string { return filepath.Join(l.Locks(), "service-names") }

// Workloads is the directory of the workloads' numbers of replicas, one file per namespace/name of
// a workload.
func (l Layout) Workloads() string { return filepath.Join(l.RootDir, "workloads") }

// Workload is the file with the number of replicas of a workload, and the definition of its pods.
func (l Layout) Workload(id Pod) string {
	return filepath.Join(l.Workloads(), PairName(id.Namespace, id.Name))
}

// WorkloadsLock is the lock that podrun holds while it changes a file of Workloads.
func (l Layout) WorkloadsLock() string { return filepath.Join(l.Locks(), "workloads") }

// Updates is the directory of the records of the pods' updates, one file per namespace/name.
func (l Layout) Updates() string { return filepath.Join(l.RootDir, "updates") }

// Update is the record of a pod's last update.
func (l Layout) Update(p Pod) string {
	return filepath.Join(l.Updates(), PairName(p.Namespace, p.Name))
}

// SecretGoods is the directory in memory with the last good definitions of pods, one directory for each namespace/name.
func (l Layout) SecretGoods() string { return filepath.Join(l.SecretsDir(), "last-good") }

// SecretGood is the directory in memory with the last good definition of a pod. The history contains the name of its file.
func (l Layout) SecretGood(p Pod) string {
	return filepath.Join(l.SecretGoods(), PairName(p.Namespace, p.Name))
}

// Histories is the directory of the pods' histories, one file per namespace/name.
func (l Layout) Histories() string { return filepath.Join(l.RootDir, "history") }

// History is the file with the earlier definitions of a pod. It is not in the pod's directory,
// because podrun creates a new pod directory when it replaces the pod.
func (l Layout) History(p Pod) string {
	return filepath.Join(l.Histories(), PairName(p.Namespace, p.Name))
}

// Jobs is the directory of the records of Jobs, one file per namespace/name.
func (l Layout) Jobs() string { return filepath.Join(l.RootDir, "jobs") }

// Job is the record of a Job.
func (l Layout) Job(namespace, name string) string {
	return filepath.Join(l.Jobs(), PairName(namespace, name))
}

// CronJobs is the directory of the records of CronJobs, one file per namespace/name.
func (l Layout) CronJobs() string { return filepath.Join(l.RootDir, "cronjobs") }

// CronJob is the record of a CronJob.
func (l Layout) CronJob(namespace, name string) string {
	return filepath.Join(l.CronJobs(), PairName(namespace, name))
}

// Claims is a directory with a file for each command that works on a pod. The command holds the
// lock of its file.
func (l Layout) Claims() string { return filepath.Join(l.RootDir, "claims") }

// Serve is the directory of the supervisor. It contains the supervisor's lock and state.
func (l Layout) Serve() string { return filepath.Join(l.RootDir, "serve") }

// APISocket is the unix socket of a supervisor's HTTP API. Only root can enter its parent
// directory. The socket is not below the root directory, because a volume that exposes the root
// directory, even read-only, would then give a container access to all pods.
func (l Layout) APISocket() string { return filepath.Join(l.runDir(), "serve", l.id(), "podrun.sock") }

// APILink is a symlink to the API's socket. In releases without APISocket, the socket itself
// has this path.
func (l Layout) APILink() string { return filepath.Join(l.Serve(), "podrun.sock") }

// GroupSocket replaces APISocket if the supervisor gives a group access to the API.
func (l Layout) GroupSocket() string { return filepath.Join(l.sharedRunDir(), "podrun.sock") }

// StatusSocket is the unix socket from which clients read metrics and status.
func (l Layout) StatusSocket() string { return filepath.Join(l.sharedRunDir(), "readonly.sock") }

// StatusLink is a symlink to StatusSocket.
func (l Layout) StatusLink() string { return filepath.Join(l.Serve(), "readonly.sock") }

// sharedRunDir is the directory of the sockets for users other than root, who cannot enter runDir. The run directory
// of an ordinary user is in a directory that only this user can enter, or in /tmp, where others could create a second
// directory first.
func (l Layout) sharedRunDir() string {
	if rootless.User() {
		return filepath.Join(l.runDir(), "api", l.id())
	}
	return filepath.Join(l.runDir()+"-api", l.id())
}

// RemoteCopies is the directory with the last valid content of each URL from which a supervisor reads manifests.
func (l Layout) RemoteCopies() string { return filepath.Join(l.Serve(), "remote") }

// Serials is the directory with the serial of the signed content that a supervisor took last from each source.
func (l Layout) Serials() string { return filepath.Join(l.Serve(), "serials") }

// ServeLock is the file whose lock a supervisor of this root directory holds while it runs.
func (l Layout) ServeLock() string { return filepath.Join(l.Serve(), "lock") }

// Source is the file that records which file in a supervisor's manifest directories defines a pod.
func (l Layout) Source(p Pod) string {
	return filepath.Join(l.Sources(), PairName(p.Namespace, p.Name))
}

// Sources is the directory of the Source files.
func (l Layout) Sources() string { return filepath.Join(l.Serve(), "sources") }

// Pending is the file that records which definitions of pods a supervisor could not put into effect, and the reasons.
func (l Layout) Pending() string { return filepath.Join(l.Serve(), "unstarted") }

// Pressure is the file that records, for each condition, the time until which a supervisor
// considers the node under pressure.
func (l Layout) Pressure() string { return filepath.Join(l.Serve(), "pressure") }

// ShuttingDown is the file that exists while the host shuts down. It contains the boot ID.
func (l Layout) ShuttingDown() string { return filepath.Join(l.Serve(), "shutdown") }

// ImageUse is the file that records, for each image, the time at which a supervisor last saw a container that
// uses the image.
func (l Layout) ImageUse() string { return filepath.Join(l.Serve(), "images") }

// DirIdentities is the file with the data by which a supervisor recognizes its manifest
// directories.
func (l Layout) DirIdentities() string { return filepath.Join(l.Serve(), "directories") }

// ImageBackOff is the directory of the records of failed pulls.
func (l Layout) ImageBackOff() string { return filepath.Join(l.RootDir, "image-backoff") }

// ImageRecords is the directory of the records of successful pulls. Its name is the same as in
// the kubelet.
func (l Layout) ImageRecords() string { return filepath.Join(l.RootDir, "image_manager") }

// PodLock is the file that podrun locks while it changes one pod.
func (l Layout) PodLock(p Pod) string {
	return filepath.Join(l.Locks(), PairName(p.Namespace, p.Name))
}

// HoldersMark is an empty file. It exists if no lock file and no owner record contains the arguments of
// commands of an older podrun. Its name never collides with that of a pod's lock.
func (l Layout) HoldersMark() string { return filepath.Join(l.Locks(), "holders") }

// NodeLock is the file that podrun locks during admission. Its name never collides with that of a pod's lock, because
// the name of a pod's lock has an underscore.
func (l Layout) NodeLock() string { return filepath.Join(l.Locks(), "node") }

// Logs is the pod's log directory (log_directory in the sandbox's configuration).
func (l Layout) Logs(p Pod) string {
	return filepath.Join(l.PodLogsDir, PairName(p.Namespace, p.Name)+"_"+pathName(p.UID))
}

// ContainerLogs is the directory of a container's logs.
func (l Layout) ContainerLogs(p Pod, container string) string {
	return filepath.Join(l.Logs(p), pathName(container))
}

// LogPath is the path of a container's log relative to Logs (log_path in the container's
// configuration).
func LogPath(container string, attempt uint32) string {
	return filepath.Join(pathName(container), strconv.FormatUint(uint64(attempt), 10)+".log")
}

// LegacyLog is a symlink to a container's log. Log collectors look for it. A name that is too long
// for a file system is truncated (logSymlink in pkg/kubelet/kuberuntime). Therefore, several
// containers of a pod may share a link.
func (l Layout) LegacyLog(p Pod, container, containerID string) string {
	return filepath.Join(l.ContainerLogsDir, cutLink(linkName(p)+pathName(container)+"-"+pathName(containerID))+linkSuffix)
}

// LegacyLogs returns the prefix and the suffix of the names of the links of a pod's containers in
// ContainerLogsDir. Links of other pods may also have them.
func LegacyLogs(p Pod) (prefix, suffix string) {
	return cutLink(linkName(p)), linkSuffix
}

const linkSuffix = ".log"

// linkName is the beginning of the names of a pod's links.
func linkName(p Pod) string { return PairName(p.Name, p.Namespace) + "_" }

// cutLink truncates the name of a link so that, with its suffix, it has at most 255 characters.
func cutLink(name string) string { return name[:min(len(name), 255-len(linkSuffix))] }

// Private returns the directories with the state of all pods, including Secrets, locks and
// sockets. No container should have access to them.
func (l Layout) Private() []string { return []string{l.RootDir, l.runDir()} }

// CgroupLock is a directory that only root can open. Its mode is 0700. podrun processes of all root
// directories lock it while they change cgroups that pods share. For this reason, it is not below a
// root directory.
func (l Layout) CgroupLock() string { return filepath.Join(l.runDir(), "cgroups") }

func (l Layout) runDir() string {
	if l.RunDir == "" {
		return "/run/podrun"
	}
	return l.RunDir
}

// SecretsDir is the directory in memory with the data that --secrets=memory keeps off the disk. Its mode is 0700. Its
// name is derived from the root directory's path.
func (l Layout) SecretsDir() string { return filepath.Join(l.runDir(), "secrets", l.id()) }

// id returns a name for the root directory. The name is used inside directories that several root
// directories share.
func (l Layout) id() string {
	sum := sha256.Sum256([]byte(l.RootDir))
	return hex.EncodeToString(sum[:8])
}

// SecretPods is the directory that contains one directory for each pod whose Secrets are in memory.
func (l Layout) SecretPods() string { return filepath.Join(l.SecretsDir(), "pods") }

// SecretPod is the directory with the file of a pod's complete checkpoint. The checkpoint on disk contains the name
// of this file.
func (l Layout) SecretPod(uid string) string { return filepath.Join(l.SecretPods(), pathName(uid)) }

// SecretCopies is the directory in memory that corresponds to RemoteCopies.
func (l Layout) SecretCopies() string { return filepath.Join(l.SecretsDir(), "remote") }

// Seccomp is the directory of Localhost seccomp profiles.
func (l Layout) Seccomp() string { return filepath.Join(l.RootDir, "seccomp") }
