package eviction

import (
	corev1 "k8s.io/api/core/v1"
)

// Disk is the usage of a file system.
type Disk struct{ Bytes, Inodes int64 }

// Plus adds two usages.
func (d Disk) Plus(other Disk) Disk { return Disk{d.Bytes + other.Bytes, d.Inodes + other.Inodes} }

// Usage is a pod's usage of the node's resources.
type Usage struct {
	Memory     int64 // working set, in bytes
	Processes  int64 // processes and threads
	Containers map[string]ContainerUsage
	// Volumes is the usage of emptyDirs on disk, by volume name. It omits emptyDirs that have not been
	// measured yet.
	Volumes map[string]Disk
	// Prevented contains the emptyDirs whose measurement the pod's containers prevent: Volumes contains
	// only a part of their usage.
	Prevented map[string]bool
	// Unmeasured is true while the first measurement of one of the emptyDirs is in progress: Volumes contains only
	// what it has found so far.
	Unmeasured bool
	// Files is the usage of single files on the host to which containers can write: /etc/hosts, as
	// in the kubelet (CVE-2020-8557), termination logs, /etc/resolv.conf and /etc/hostname.
	Files Disk
}

// ContainerUsage is the usage of a container of a pod.
type ContainerUsage struct {
	Memory int64 // working set, in bytes
	Layer  Disk  // usage of the writable layer, on the images' file system
	Logs   Disk
}

// Candidate is a pod that may be evicted. Usage is nil if the pod's usage is unknown; podrun
// evicts such a pod first, as the kubelet does.
type Candidate struct {
	Pod   *corev1.Pod
	Usage *Usage
}
