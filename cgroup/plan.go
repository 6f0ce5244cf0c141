// Package cgroup creates and removes the cgroup of each pod. Names and values are the kubelet's.
// The hierarchy is kubepods/pod<uid> for Guaranteed pods. For other pods it is
// kubepods/burstable/pod<uid> or kubepods/besteffort/pod<uid>. The runtime creates the containers'
// cgroups inside the pod's cgroup, but never removes the pod's cgroup.
//
// The caller of Apply and Remove must hold the node's lock, because both change cgroups that pods
// share.
package cgroup

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/resource"
)

// Input is the input of a plan.
type Input struct {
	Pod      *corev1.Pod // with defaults, and a UID that is safe in a path
	Facts    host.Facts  // requires Cgroup, Capacity, HugePageSizes, and Pods with the running pods
	Settings nodeconfig.Settings
}

// Plan contains the cgroups of one pod. It marshals to stable JSON. If cgroupsPerQOS is off, the
// plan is empty, and the runtime selects the cgroup.
type Plan struct {
	Version int               `json:"version,omitempty"`
	Driver  string            `json:"driver,omitempty"`
	Mounts  map[string]string `json:"-"` // controller → mount point; the key "" is cgroup v2
	Root    []string          `json:"root,omitempty"`
	Lock    string            `json:"-"` // directory that podrun locks while shared groups change
	RootDir string            `json:"-"` // podrun's root directory, recorded on the pod's group
	// Shared lists the groups that the pod shares with others, the outermost first. In a plan from
	// Leftovers, it lists the shared groups of all QoS classes.
	Shared []Group `json:"shared,omitempty"`
	// Pods contains the pod's group. In a plan from Leftovers, it contains one group per QoS
	// class.
	Pods []Group `json:"pods,omitempty"`
}

// Group is one cgroup.
type Group struct {
	Name      []string  `json:"-"`    // path components from the root, independent of the driver
	Path      string    `json:"path"` // below the mount point, with a leading slash
	Resources Resources `json:"resources"`
	MilliCPU  int64     `json:"-"` // the pod's requests, if the group belongs to a pod
}

// Resources are the values of a cgroup. A zero value keeps the kernel's default.
type Resources struct {
	CPUShares uint64      `json:"cpuShares,omitempty"` // v1: 2 to 262144
	CPUWeight uint64      `json:"cpuWeight,omitempty"` // v2: 1 to 10000
	CPUQuota  int64       `json:"cpuQuota,omitempty"`  // µs per period; -1 means no quota
	CPUPeriod uint64      `json:"cpuPeriod,omitempty"` // in µs
	Memory    int64       `json:"memory,omitempty"`    // in bytes
	PidsLimit int64       `json:"pidsLimit,omitempty"`
	HugePages []HugePages `json:"hugePages,omitempty"` // one per page size of the host
}

// HugePages limits the huge pages of one size.
type HugePages struct {
	Size  string `json:"size"`  // in the notation of the kernel's files: 2MB, 1GB
	Limit uint64 `json:"limit"` // in bytes
}

// New returns the plan of a pod's cgroup, and of the weights of the shared cgroups. The weights
// include this pod.
func New(in Input) Plan {
	p := newPlan(in.Facts.Cgroup, in.Settings)
	if !in.Settings.CgroupsPerQOS || in.Facts.Cgroup.Unavailable != "" {
		return p
	}
	class := resource.QOSClass(in.Pod)
	pods := append(othersThan(string(in.Pod.UID), in.Facts.Pods), host.Pod{
		UID: string(in.Pod.UID), Managed: true, Ready: true, QOSClass: class, Requests: resource.PodRequests(in.Pod),
	})
	g := p.group(podResources(in, class), podName(class, string(in.Pod.UID))...)
	p.Shared = slices.DeleteFunc(p.sharedGroups(pods, in.Facts), func(shared Group) bool {
		return !slices.Equal(shared.Name, g.Name[:min(len(shared.Name), len(g.Name))])
	})
	requests := resource.PodRequests(in.Pod)
	g.MilliCPU = requests.Cpu().MilliValue()
	p.Pods = []Group{g}
	return p
}

// Leftovers returns the plan for the removal of a pod if only its UID is known. It contains the
// pod's cgroup in every QoS class.
func Leftovers(uid string, c host.Cgroup, s nodeconfig.Settings) Plan {
	p := newPlan(c, s)
	if !s.CgroupsPerQOS || c.Unavailable != "" {
		return p
	}
	p.Shared = p.sharedGroups(nil, host.Facts{Cgroup: c})
	for _, class := range []corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort} {
		p.Pods = append(p.Pods, p.group(Resources{}, podName(class, uid)...))
	}
	return p
}

// Parent returns the sandbox's cgroup_parent. This is a path for cgroupfs, the name of a slice
// for systemd, and "" if cgroupsPerQOS is off.
func (p Plan) Parent() string {
	switch {
	case len(p.Pods) == 0:
		return ""
	case p.Driver == host.DriverSystemd:
		return path.Base(p.Pods[0].Path)
	}
	return p.Pods[0].Path
}

func newPlan(c host.Cgroup, s nodeconfig.Settings) Plan {
	return Plan{Version: c.Version, Driver: c.Driver, Mounts: c.MountPoints, Root: rootName(c.Delegated + "/" + s.CgroupRoot), Lock: s.Layout().CgroupLock(), RootDir: s.RootDir}
}

// group returns a group with resources. The argument name is relative to the cgroup root.
func (p Plan) group(r Resources, name ...string) Group {
	g := p.hierarchies().level(append(append([]string{}, p.Root...), name...))
	g.Resources = r
	return g
}

func othersThan(uid string, pods []host.Pod) []host.Pod {
	var out []host.Pod
	for _, p := range pods {
		if p.UID != uid {
			out = append(out, p)
		}
	}
	return out
}
