package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// Usage is the CPU and memory usage of a pod or a container. nil fields are unknown.
type Usage struct {
	NanoCores       *uint64 // CPU usage; 1e9 is one core
	WorkingSetBytes *uint64 // memory without inactive file pages
}

// ContainerUsage is the usage of a running container.
type ContainerUsage struct {
	Name string
	Usage
}

// PodUsage is the usage of a running pod, and of its containers, by name.
type PodUsage struct {
	ID         identity.Pod
	Labels     map[string]string // nil without a readable checkpoint
	Containers []ContainerUsage
	Usage      // the sum of the containers' usage, as in kubectl; if that of a container is unknown, the cgroup's usage
	Time       time.Time
	// Window is the time over which CPU usage was measured; 0 if `podrun serve` measured the usage.
	Window time.Duration
}

// topInterval is the time between two samples. It is longer than the time for which a
// supervisor's API returns the same response.
const topInterval = 1100 * time.Millisecond

// Top measures the usage of the running pods that match, by namespace and name. It requests the
// usage from the running supervisor. If there is none, it requests it from the runtime. If the
// first sample has no rates, it takes a second one. The error is of kind Runtime.
func Top(ctx context.Context, e *run.Node, sel lookup.Selector) ([]PodUsage, error) {
	if why := discover.NoCgroups(); why != "" {
		return nil, &problem.Error{Kind: problem.Runtime,
			Err:  errors.New("the usage of CPU and memory is not available: " + why),
			Hint: "use 'podrun exec NAME -- top' for the processes of a container, or run pods with sudo"}
	}
	reader := &usageReader{engine: e}
	read := func() (*statsapi.Summary, error) {
		if s, err := serveSummary(ctx, e.Layout()); err == nil || ctx.Err() != nil {
			return s, err
		}
		return reader.read(ctx)
	}
	summary, err := read()
	if err != nil {
		if _, down := discover.Reach(ctx, e.Client); down != nil {
			// The error already explains how to start the runtime.
			err = down
		}
		return nil, err
	}
	begun, window := time.Now(), time.Duration(0)
	if !rated(summary, sel) {
		if err := wait.Sleep(ctx, topInterval); err != nil {
			return nil, err
		}
		window = time.Since(begun)
		if summary, err = read(); err != nil {
			return nil, err
		}
	}
	out := podUsages(summary, sel, time.Now(), window)
	for i := range out {
		if pod := lookup.StoredPod(e, out[i].ID); pod != nil {
			out[i].Labels = pod.Labels
		}
	}
	return out, nil
}

// serveSummary requests the statistics from the supervisor of a root directory.
func serveSummary(ctx context.Context, layout identity.Layout) (*statsapi.Summary, error) {
	body, err := askAPI(ctx, layout, "/stats/summary")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var out statsapi.Summary
	return &out, json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&out)
}

// idOf returns the identity of a pod in a summary.
func idOf(p *statsapi.PodStats) identity.Pod {
	return identity.Pod{Namespace: p.PodRef.Namespace, Name: p.PodRef.Name, UID: p.PodRef.UID}
}

// rated reports whether the CPU rates of all matching pods are known.
func rated(s *statsapi.Summary, sel lookup.Selector) bool {
	for i := range s.Pods {
		p := &s.Pods[i]
		if !sel.Matches(idOf(p)) {
			continue
		}
		for _, c := range p.Containers {
			cpu := c.CPU
			if cpu == nil {
				cpu = p.CPU
			}
			if cpu != nil && cpu.UsageNanoCores == nil {
				return false
			}
		}
	}
	return true
}

// podUsages returns the usages of the matching pods. It omits pods that have no running
// container.
func podUsages(s *statsapi.Summary, sel lookup.Selector, now time.Time, window time.Duration) []PodUsage {
	var out []PodUsage
	for i := range s.Pods {
		p := &s.Pods[i]
		if !sel.Matches(idOf(p)) || len(p.Containers) == 0 {
			continue
		}
		one := PodUsage{ID: idOf(p), Time: now, Window: window}
		for _, c := range p.Containers {
			one.Containers = append(one.Containers, ContainerUsage{c.Name, usageOf(c.CPU, c.Memory)})
		}
		one.Usage = sumUsage(one.Containers, usageOf(p.CPU, p.Memory))
		out = append(out, one)
	}
	return out
}

func usageOf(cpu *statsapi.CPUStats, memory *statsapi.MemoryStats) (u Usage) {
	if cpu != nil {
		u.NanoCores = cpu.UsageNanoCores
	}
	if memory != nil {
		u.WorkingSetBytes = memory.WorkingSetBytes
	}
	return u
}

// sumUsage sums the usage of containers. If the usage of one container is unknown, it returns
// the usage of the pod.
func sumUsage(containers []ContainerUsage, pod Usage) Usage {
	sum := func(of func(Usage) *uint64) *uint64 {
		var total uint64
		for _, c := range containers {
			n := of(c.Usage)
			if n == nil {
				return of(pod)
			}
			total += *n
		}
		if len(containers) == 0 {
			return of(pod)
		}
		return &total
	}
	return Usage{
		NanoCores:       sum(func(u Usage) *uint64 { return u.NanoCores }),
		WorkingSetBytes: sum(func(u Usage) *uint64 { return u.WorkingSetBytes }),
	}
}
