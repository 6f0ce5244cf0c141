package supervisor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	evictions "github.com/podrun/podrun/serve/eviction"
	"github.com/podrun/podrun/volume"
)

// stats reads the resource usage of this host and its pods.
type stats struct {
	node *node.Node

	volumes volumeSizes

	mu    sync.Mutex
	files map[string][]string // the results of observe.RuntimeFiles, which never change, by container ID
}

// NewStats returns the Stats of a node. It reads memory usage and process IDs from cgroups, the
// sizes of container layers from the runtime, and all other sizes from the disk.
func NewStats(n *node.Node) Stats {
	s := &stats{node: n}
	s.volumes.begin = func(uid, name string) measurement {
		return evictions.Measure(volume.EmptyDirPath(n.Layout(), uid, name))
	}
	s.volumes.warn = func(err error) { n.WarnOnce(problem.WarningOf(err)) }
	return s
}

// Measure implements Stats.
func (s *stats) Measure(ctx context.Context, pods []*corev1.Pod) { s.volumes.measure(ctx, pods) }

// Node implements Stats.
func (s *stats) Node(ctx context.Context) (host.Facts, error) {
	return discover.ReadPressure(ctx, s.node.Client, s.node.Settings)
}

// measureWithin limits the time for measuring a directory to which containers cannot add files. If this
// time expires, podrun uses the partial result.
const measureWithin = 30 * time.Second

// Pods implements Stats. The usage of a pod is unknown if neither its cgroup nor the
// runtime reports it.
func (s *stats) Pods(ctx context.Context, pods []*corev1.Pod) map[string]*evictions.Usage {
	facts, err := discover.ReadBasics(ctx, s.node.Client, s.node.Settings)
	if err != nil {
		// The runtime does not respond, which another part of the supervisor reports.
		return nil
	}
	list, err := s.node.Client.ListContainerStats(ctx)
	if err != nil && ctx.Err() == nil {
		s.node.WarnOnce(problem.WarningOf(err))
	}
	if facts.Cgroup.Unavailable != "" {
		cri.WithoutUsage(list)
	}
	byPod, files := newest(list), s.runtimeFiles(ctx, pods)
	out := map[string]*evictions.Usage{}
	for _, p := range pods {
		if ctx.Err() != nil {
			break
		}
		group, known := cgroup.ReadUsage(cgroup.Leftovers(string(p.UID), facts.Cgroup, s.node.Settings))
		of := byPod[string(p.UID)]
		if known || len(of) > 0 {
			u := s.usage(ctx, p, of, files[string(p.UID)])
			if u.Processes = group.Processes; known {
				u.Memory = group.Memory
			}
			out[string(p.UID)] = u
		}
	}
	return out
}

// newest returns the stats of the latest attempt of each container, by pod UID and
// container name.
func newest(list []*runtimeapi.ContainerStats) map[string]map[string]*runtimeapi.ContainerStats {
	out := map[string]map[string]*runtimeapi.ContainerStats{}
	for _, c := range list {
		labels := c.GetAttributes().GetLabels()
		uid, name := labels[identity.LabelPodUID], labels[identity.LabelContainerName]
		if out[uid] == nil {
			out[uid] = map[string]*runtimeapi.ContainerStats{}
		}
		if have := out[uid][name]; have == nil || have.GetAttributes().GetMetadata().GetAttempt() < c.GetAttributes().GetMetadata().GetAttempt() {
			out[uid][name] = c
		}
	}
	return out
}

// usage returns a pod's disk usage, and the memory usage of its containers. The argument files is
// the result of runtimeFiles for the pod.
func (s *stats) usage(ctx context.Context, p *corev1.Pod, containers map[string]*runtimeapi.ContainerStats, files []string) *evictions.Usage {
	layout, id := s.node.Layout(), identity.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
	u := &evictions.Usage{Containers: map[string]evictions.ContainerUsage{}, Volumes: map[string]evictions.Disk{}}
	for name, c := range containers {
		one := evictions.ContainerUsage{Memory: int64(c.GetMemory().GetWorkingSetBytes().GetValue()),
			Layer: evictions.Disk{
				Bytes:  int64(c.GetWritableLayer().GetUsedBytes().GetValue()),
				Inodes: int64(c.GetWritableLayer().GetInodesUsed().GetValue()),
			}}
		u.Memory += one.Memory
		u.Containers[name] = one
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			one := u.Containers[list[i].Name]
			one.Logs = s.disk(ctx, layout.ContainerLogs(id, list[i].Name))
			u.Containers[list[i].Name] = one
		}
	}
	u.Files = s.disk(ctx, layout.Pod(id.UID).Containers()) // these are the termination logs
	for _, path := range append(files, layout.Pod(id.UID).EtcHosts()) {
		u.Files = u.Files.Plus(evictions.ReadFile(path))
	}
	s.volumes.add(id.UID, u)
	return u
}

// runtimeFiles returns, by pod UID, the files that the runtime itself has mounted into the pods'
// containers and to which the containers can write. The pod's usage must include these files.
// Otherwise a container could write any amount of data outside of volumes, layers and logs (as in
// CVE-2020-8557). If the runtime does not report these files for a container, runtimeFiles warns
// that the measured usage of the pod is too low.
func (s *stats) runtimeFiles(ctx context.Context, pods []*corev1.Pod) map[string][]string {
	list, err := s.node.Client.ListContainers(ctx, nil)
	if err != nil {
		if ctx.Err() == nil {
			s.node.WarnOnce(problem.WarningOf(err))
		}
		return nil
	}
	measured := map[string]*corev1.Pod{}
	for _, p := range pods {
		measured[string(p.UID)] = p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, out := map[string][]string{}, map[string][]string{}
	for _, c := range list {
		uid := c.GetLabels()[identity.LabelPodUID]
		files, ok := s.files[c.GetId()]
		if ok {
			known[c.GetId()] = files
		}
		if measured[uid] == nil {
			// The container may belong to another client of the runtime.
			continue
		}
		if !ok {
			if files, err = observe.RuntimeFiles(ctx, s.node.Client, c.GetId()); err != nil {
				s.uncounted(ctx, measured[uid], err)
				// The next pass reads the files of this container.
				continue
			}
		}
		known[c.GetId()] = files
		for _, f := range files {
			// The containers of a sandbox share these files, which must count only once.
			if !slices.Contains(out[uid], f) {
				out[uid] = append(out[uid], f)
			}
		}
	}
	s.files = known
	return out
}

// uncounted warns that the runtime's files of a container do not count towards the
// ephemeral storage of its pod, unless the container has been removed.
func (s *stats) uncounted(ctx context.Context, p *corev1.Pod, err error) {
	if ctx.Err() != nil || status.Code(err) == codes.NotFound {
		return
	}
	w := problem.WarningOf(err)
	w.Message = fmt.Sprintf("ephemeral storage of pod %s/%s: cannot count files that the runtime mounts into its containers: %s", p.Namespace, p.Name, w.Message)
	s.node.WarnOnce(w)
}

// disk measures the usage of a directory to which containers cannot add files: logs and termination logs.
func (s *stats) disk(ctx context.Context, dir string) evictions.Disk {
	bounded, cancel := context.WithTimeout(ctx, measureWithin)
	defer cancel()
	used, err := evictions.ReadDisk(bounded, dir)
	if err != nil && bounded.Err() == nil {
		s.node.WarnOnce(problem.WarningOf(err))
	}
	return used
}
