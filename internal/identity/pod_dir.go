package identity

import (
	"path/filepath"
	"strconv"
)

// PodDir is the directory of one pod (Layout.Pod).
type PodDir string

// Checkpoint is the file with the pod and the objects that the pod uses. Its mode is 0600.
func (d PodDir) Checkpoint() string { return filepath.Join(string(d), "pod.yaml") }

// MaxCheckpoint is the maximum size of a checkpoint, in bytes. It is several times the size of the
// largest manifests. A checkpoint of this size does not yet make every command slow.
const MaxCheckpoint = 64 << 20

// Journal is the file of the pod's events, one JSON object per line.
func (d PodDir) Journal() string { return filepath.Join(string(d), "events.jsonl") }

// EtcHosts is the file that is mounted at /etc/hosts.
func (d PodDir) EtcHosts() string { return filepath.Join(string(d), "etc-hosts") }

// UserNS is the file with the pod's range of host IDs. It exists if the pod has its own user
// namespace.
func (d PodDir) UserNS() string { return filepath.Join(string(d), "userns") }

// UserNSLength is the number of IDs in a pod's user namespace (KEP-127).
const UserNSLength = 1 << 16

// Devices is the file with the devices of the pod's containers. It exists if one of them has a
// device.
func (d PodDir) Devices() string { return filepath.Join(string(d), "devices") }

// StoppedMark is a file with two lines. The first is the reason why the pod was stopped: the
// command that stopped it, or the pod for which it was preempted. The second is a hint. A command
// that waits for the pod does not start it again if this file exists.
func (d PodDir) StoppedMark() string { return filepath.Join(string(d), "stopped") }

// Restarted is the JSON file with the IDs of the containers that podrun stopped when it last restarted all containers
// of the pod.
func (d PodDir) Restarted() string {
	return filepath.Join(d.Plugins(), "podrun.dev~restart-all", "ended")
}

// PendingRestarts is the file that lists the containers that podrun kills, or has killed, in
// order to restart them. It contains a JSON object that maps the containers' names to the reasons.
func (d PodDir) PendingRestarts() string {
	return filepath.Join(d.Plugins(), "podrun.dev~restarts", "pending.json")
}

// HookMarks is the directory that contains a file with the state of the hook for each container with a postStart
// hook. The file's name is the container's ID.
func (d PodDir) HookMarks() string { return filepath.Join(d.Plugins(), "podrun.dev~hooks") }

// State is the file with the pod's state: the recorded part of its status, its last probe results,
// and a resize in progress. Up to schema version 2, it contained only the status. Its path has not
// changed since then, so that an older podrun checks the version of the file at this path, and
// refuses to change the pod.
func (d PodDir) State() string {
	return filepath.Join(d.Plugins(), "podrun.dev~status", "status.json")
}

// LegacyProbes is the file with the pod's probe results up to schema version 2.
func (d PodDir) LegacyProbes() string {
	return filepath.Join(d.Plugins(), "podrun.dev~probes", "results.json")
}

// LegacyResize is the file with a resize in progress up to schema version 2.
func (d PodDir) LegacyResize() string {
	return filepath.Join(d.Plugins(), "podrun.dev~resize", "resize.json")
}

// Volumes is the directory with the pod's volumes, by plugin.
func (d PodDir) Volumes() string { return filepath.Join(string(d), "volumes") }

// Volume is the directory of one volume. plugin is the kubelet's name of the kind, such as
// kubernetes.io~empty-dir.
func (d PodDir) Volume(plugin, name string) string {
	return filepath.Join(d.Volumes(), pathName(plugin), pathName(name))
}

// Plugins is the directory of the plugins' own data about the pod.
func (d PodDir) Plugins() string { return filepath.Join(string(d), "plugins") }

// PluginData is a plugin's own data about one volume.
func (d PodDir) PluginData(plugin, name string) string {
	return filepath.Join(d.Plugins(), pathName(plugin), pathName(name))
}

// Subpaths is the directory of the bind mounts for volumeMounts with a subPath.
func (d PodDir) Subpaths() string { return filepath.Join(string(d), "volume-subpaths") }

// Subpath is the path of the bind mount for the volumeMount with the given index in a container.
func (d PodDir) Subpath(volume, container string, index int) string {
	return filepath.Join(d.Subpaths(), pathName(volume), pathName(container), strconv.Itoa(index))
}

// Containers is the directory that contains one directory per container of the pod.
func (d PodDir) Containers() string { return filepath.Join(string(d), "containers") }

// Container is the directory with the termination logs of a container.
func (d PodDir) Container(name string) string {
	return filepath.Join(d.Containers(), pathName(name))
}
