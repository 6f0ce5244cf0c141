package nodeapi

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/internal/identity"
)

// Usage is the CPU and memory usage of a cgroup; nil fields are unknown.
type Usage struct {
	CPUNanoSeconds  *uint64 // CPU time since the cgroup was created
	MemoryBytes     *uint64
	WorkingSetBytes *uint64 // memory without inactive file pages
}

// StatsInput is the input of a Summary.
type StatsInput struct {
	Now      time.Time
	NodeName string
	// Sandboxes and Containers are the lists from the runtime. PodStats and Stats are the runtime's
	// statistics, or empty if the runtime has none.
	Sandboxes  []*runtimeapi.PodSandbox
	Containers []*runtimeapi.Container
	PodStats   []*runtimeapi.PodSandboxStats
	Stats      []*runtimeapi.ContainerStats
	// Owned reports whether a sandbox belongs to podrun.
	Owned func(*runtimeapi.PodSandbox) bool
	// Groups contains, by pod UID, the usage of the cgroups of pods for which the runtime has no
	// statistics.
	Groups map[string]Usage
	Node   statsapi.NodeStats // statistics of the node, without its name
}

// Summarize returns the kubelet's /stats/summary for podrun's running pods, sorted by namespace and
// name. The usage of a pod is that of its cgroup or, if that is unknown, the sum of its containers'
// usage. It omits exited containers, as the kubelet does (pkg/kubelet/stats,
// removeTerminatedContainers). For a running container without statistics, the summary contains
// only the name. UsageNanoCores is the runtime's value, if the runtime reports one. Rates replaces
// it with the average usage between two summaries.
func Summarize(in StatsInput) *statsapi.Summary {
	out := &statsapi.Summary{Node: in.Node, Pods: []statsapi.PodStats{}}
	out.Node.NodeName = in.NodeName
	started := map[string]int64{}
	for _, c := range in.Containers {
		// containerd also lists exited containers.
		if c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			started[c.Id] = c.CreatedAt
		}
	}
	containers := map[string][]statsapi.ContainerStats{} // by UID of the pod
	counted := map[string]bool{}
	for _, s := range in.Stats {
		if created, listed := started[s.GetAttributes().GetId()]; listed {
			counted[s.GetAttributes().GetId()] = true
			uid := s.GetAttributes().GetLabels()[identity.LabelPodUID]
			containers[uid] = append(containers[uid], containerStats(s, created))
		}
	}
	for _, c := range in.Containers {
		if uid := c.Labels[identity.LabelPodUID]; c.State == runtimeapi.ContainerState_CONTAINER_RUNNING && !counted[c.Id] {
			containers[uid] = append(containers[uid], statsapi.ContainerStats{
				Name:      c.Labels[identity.LabelContainerName],
				StartTime: metav1.NewTime(time.Unix(0, c.CreatedAt)),
			})
		}
	}
	of := map[string]*runtimeapi.PodSandboxStats{}
	for _, s := range in.PodStats {
		of[s.GetAttributes().GetId()] = s
	}
	for _, sb := range in.Sandboxes {
		if sb.State != runtimeapi.PodSandboxState_SANDBOX_READY || !in.Owned(sb) {
			continue
		}
		uid := sb.GetMetadata().GetUid()
		out.Pods = append(out.Pods, podStats(in, sb, of[sb.Id].GetLinux(), containers[uid]))
	}
	slices.SortFunc(out.Pods, func(a, b statsapi.PodStats) int {
		return cmp.Or(cmp.Compare(a.PodRef.Namespace, b.PodRef.Namespace), cmp.Compare(a.PodRef.Name, b.PodRef.Name), cmp.Compare(a.PodRef.UID, b.PodRef.UID))
	})
	return out
}

// podStats returns the statistics of one pod.
func podStats(in StatsInput, sb *runtimeapi.PodSandbox, s *runtimeapi.LinuxPodSandboxStats, containers []statsapi.ContainerStats) statsapi.PodStats {
	m := sb.GetMetadata()
	p := statsapi.PodStats{PodRef: statsapi.PodReference{Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUid()},
		StartTime: metav1.NewTime(time.Unix(0, sb.CreatedAt)), Containers: containers}
	if p.Containers == nil {
		p.Containers = []statsapi.ContainerStats{}
	}
	slices.SortFunc(p.Containers, func(a, b statsapi.ContainerStats) int { return cmp.Compare(a.Name, b.Name) })
	p.CPU = cpuStats(s.GetCpu())
	p.Memory = memoryStats(s.GetMemory())
	if group, known := in.Groups[m.GetUid()]; known {
		if p.CPU == nil && group.CPUNanoSeconds != nil {
			p.CPU = &statsapi.CPUStats{Time: metav1.NewTime(in.Now), UsageCoreNanoSeconds: group.CPUNanoSeconds}
		}
		if p.Memory == nil && group.WorkingSetBytes != nil {
			p.Memory = &statsapi.MemoryStats{Time: metav1.NewTime(in.Now), UsageBytes: group.MemoryBytes, WorkingSetBytes: group.WorkingSetBytes}
		}
	}
	sumUp(&p, in.Now)
	p.Network = networkStats(s.GetNetwork())
	if n := s.GetProcess().GetProcessCount(); n != nil {
		p.ProcessStats = &statsapi.ProcessStats{ProcessCount: ptr.To(n.GetValue())}
	}
	return p
}
