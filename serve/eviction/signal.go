// Package eviction computes the node's pressure from the resource usage of the host and
// its pods, and decides what to reclaim and which pod to evict, as the kubelet's eviction
// manager does (pkg/kubelet/eviction, v1.36). It is pure except for the files that read
// the disk.
package eviction

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
)

// Signal is the subject of a threshold, with the kubelet's name.
type Signal string

// The signals. The kubelet's containerfs and allocatableMemory are not among them:
// containers' file systems are the node's or the images', and no control group bounds
// all pods together.
const (
	MemoryAvailable   Signal = "memory.available"
	NodeFSAvailable   Signal = "nodefs.available"
	NodeFSInodesFree  Signal = "nodefs.inodesFree"
	ImageFSAvailable  Signal = "imagefs.available"
	ImageFSInodesFree Signal = "imagefs.inodesFree"
	PIDAvailable      Signal = "pid.available"
)

// order is the one in which resources are reclaimed. The kubelet takes memory first
// and the others in no order.
var order = []Signal{MemoryAvailable, NodeFSAvailable, NodeFSInodesFree, ImageFSAvailable, ImageFSInodesFree, PIDAvailable}

// The kubelet's names of resources that the API has none for.
const (
	inodes corev1.ResourceName = "inodes"
	pids   corev1.ResourceName = "pids"
)

// Condition is the node's condition that a signal makes.
func (s Signal) Condition() corev1.NodeConditionType {
	switch s {
	case MemoryAvailable:
		return corev1.NodeMemoryPressure
	case PIDAvailable:
		return corev1.NodePIDPressure
	}
	return corev1.NodeDiskPressure
}

// Resource is the resource that the node is short of: memory, ephemeral-storage, inodes
// or pids.
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

// Observation is how much of a resource there is, and how much of it is available,
// in bytes, inodes or process IDs.
type Observation struct{ Available, Capacity int64 }

// Observations are the observed values, by signal. Values that could not be read are
// missing.
type Observations map[Signal]Observation

// Observe takes the signals from the host's facts. Memory is available by the
// kernel's estimate.
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

// DedicatedImages reports whether images, and the containers' own layers, are on another
// file system than the node's. It is false where that of the images is not known.
func DedicatedImages(f host.Facts) bool {
	return f.ImageFS.CapacityBytes > 0 && f.ImageFS.Device != f.NodeFS.Device
}
