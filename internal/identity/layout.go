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
func (l Layout) Pod(uid string) PodDir { return PodDir(filepath.Join(l.PodsDir(), pathName(uid))) }

// Locks is the directory of the locks of pods and of the node.
func (l Layout) Locks() LocksDir { return LocksDir(filepath.Join(l.RootDir, "locks")) }

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
func (l Layout) Services() ServicesDir {
	return ServicesDir(filepath.Join(l.RootDir, "services"))
}

// ServiceEvents is the directory with the journals of Services, one directory per namespace/name. It is not in the
// directory of the Services, because older releases read each file there as a Service.
func (l Layout) ServiceEvents() string { return filepath.Join(l.RootDir, "service-events") }

// ServiceJournal is the file of a Service's events, one JSON object per line.
func (l Layout) ServiceJournal(id Pod) string {
	return filepath.Join(l.ServiceEvents(), PairName(id.Namespace, id.Name), "events.jsonl")
}

// Workloads is the directory of the workloads' numbers of replicas, one file per namespace/name of
// a workload.
func (l Layout) Workloads() string { return filepath.Join(l.RootDir, "workloads") }

// Workload is the file with the number of replicas of a workload, and the definition of its pods.
func (l Layout) Workload(id Pod) string {
	return filepath.Join(l.Workloads(), PairName(id.Namespace, id.Name))
}

// Updates is the directory of the records of the pods' updates, one file per namespace/name.
func (l Layout) Updates() string { return filepath.Join(l.RootDir, "updates") }

// Update is the record of a pod's last update.
func (l Layout) Update(p Pod) string {
	return filepath.Join(l.Updates(), PairName(p.Namespace, p.Name))
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
func (l Layout) Serve() ServeDir { return ServeDir(filepath.Join(l.RootDir, "serve")) }

// APISocket is the unix socket of a supervisor's HTTP API. Only root can enter its parent
// directory. The socket is not below the root directory, because a volume that exposes the root
// directory, even read-only, would then give a container access to all pods.
func (l Layout) APISocket() string { return filepath.Join(l.runDir(), "serve", l.id(), "podrun.sock") }

// GroupSocket replaces APISocket if the supervisor gives a group access to the API.
func (l Layout) GroupSocket() string { return filepath.Join(l.sharedRunDir(), "podrun.sock") }

// StatusSocket is the unix socket from which clients read metrics and status.
func (l Layout) StatusSocket() string { return filepath.Join(l.sharedRunDir(), "readonly.sock") }

// sharedRunDir is the directory of the sockets for users other than root, who cannot enter runDir. The run directory
// of an ordinary user is in a directory that only this user can enter, or in /tmp, where others could create a second
// directory first.
func (l Layout) sharedRunDir() string {
	if rootless.User() {
		return filepath.Join(l.runDir(), "api", l.id())
	}
	return filepath.Join(l.runDir()+"-api", l.id())
}

// ImageBackOff is the directory of the records of failed pulls.
func (l Layout) ImageBackOff() string { return filepath.Join(l.RootDir, "image-backoff") }

// ImageRecords is the directory of the records of successful pulls. Its name is the same as in
// the kubelet.
func (l Layout) ImageRecords() string { return filepath.Join(l.RootDir, "image_manager") }

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

// Secrets is the directory in memory with the data that --secrets=memory keeps off the disk. Its mode is 0700. Its
// name is derived from the root directory's path.
func (l Layout) Secrets() SecretsDir {
	return SecretsDir(filepath.Join(l.runDir(), "secrets", l.id()))
}

// id returns a name for the root directory. The name is used inside directories that several root
// directories share.
func (l Layout) id() string {
	sum := sha256.Sum256([]byte(l.RootDir))
	return hex.EncodeToString(sum[:8])
}

// Seccomp is the directory of Localhost seccomp profiles.
func (l Layout) Seccomp() string { return filepath.Join(l.RootDir, "seccomp") }
