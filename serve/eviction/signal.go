// Package eviction computes the node's pressure from the resource usage of the host and its pods.
// It decides which resources to reclaim and which pod to evict. It follows the kubelet's eviction
// manager (pkg/kubelet/eviction, v1.36). The package is pure, except for the functions that read
// the disk.
package eviction

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
)

// Signal is the kubelet's name for the resource of a threshold.
type Signal string

// The kubelet's signals, except containerfs and allocatableMemory. These two do not apply: containers are on the
// file system of the node or of the images, and no cgroup limits the memory of all pods together.
const (
	MemoryAvailable   Signal = "memory.available"
	NodeFSAvailable   Signal = "nodefs.available"
	NodeFSInodesFree  Signal = "nodefs.inodesFree"
	ImageFSAvailable  Signal = "imagefs.available"
	ImageFSInodesFree Signal = "imagefs.inodesFree"
	PIDAvailable      Signal = "pid.available"
)

// order is the order in which podrun reclaims resources. The kubelet starts with memory, and
// does not define an order for the other resources.
var order = []Signal{MemoryAvailable, NodeFSAvailable, NodeFSInodesFree, ImageFSAvailable, ImageFSInodesFree, PIDAvailable}

// The kubelet's names of resources for which the API has no constant.
const (
	inodes corev1.ResourceName = "inodes"
	pids   corev1.ResourceName = "pids"
)

// Condition returns the node condition that a signal sets.
func (s Signal) Condition() corev1.NodeConditionType {
	switch s {
	case MemoryAvailable:
		return corev1.NodeMemoryPressure
	case PIDAvailable:
		return corev1.NodePIDPressure
	}
	return corev1.NodeDiskPressure
}

// Resource returns the resource of a signal: memory, ephemeral-storage, inodes or pids.
func (s Signal) Resource() corev1.ResourceName {
	switch s {
	case MemoryAvailable:
		return corev1.ResourceMemory
	case PIDAvailable:
		return pids
	case NodeFSInodesFree, ImageFSInodesFree:
		return inodes
	}
	return corev1.ResourceEphemeralStorage
}

func (s Signal) known() bool { return slices.Contains(order, s) }

// Observation is the capacity and the available amount of a resource, in bytes, inodes or
// process IDs.
type Observation struct{ Available, Capacity int64 }

// Observations are the observed values, by signal. Values that podrun could not read are
// missing.
type Observations map[Signal]Observation

// Observe computes the signals from the host's facts. Available memory is the kernel's
// estimate.
func Observe(f host.Facts) Observations {
	out := Observations{}
	memory := f.Capacity[corev1.ResourceMemory]
	if f.MemoryAvailable > 0 {
		out[MemoryAvailable] = Observation{f.MemoryAvailable, memory.Value()}
	}
	for _, fs := range []struct {
		bytes, inodes Signal
		host.Filesystem
	}{{NodeFSAvailable, NodeFSInodesFree, f.NodeFS}, {ImageFSAvailable, ImageFSInodesFree, f.ImageFS}} {
		if fs.CapacityBytes > 0 {
			out[fs.bytes] = Observation{fs.AvailableBytes, fs.CapacityBytes}
		}
		if fs.Inodes > 0 {
			out[fs.inodes] = Observation{fs.InodesFree, fs.Inodes}
		}
	}
	if f.PIDs.Max > 0 {
		out[PIDAvailable] = Observation{f.PIDs.Max - f.PIDs.Used, f.PIDs.Max}
	}
	return out
}

// DedicatedImages reports whether images and the containers' writable layers are on a different
// file system than the node's data. It returns false if the file system of the images is
// unknown.
func DedicatedImages(f host.Facts) bool {
	return f.ImageFS.CapacityBytes > 0 && f.ImageFS.Device != f.NodeFS.Device
}
