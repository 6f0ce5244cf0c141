package critest

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListContainerStats implements the CRI. Each running container has used 1 s of CPU, plus the
// cores of UsesCPU since it was started. It uses 1 MiB of memory, unless SetMemory has set
// another value. The CPU rate is 0, as in the first response of containerd 1.7. Sandbox
// statistics are not implemented.
func (rt *Runtime) ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	resp := &runtimeapi.ListContainerStatsResponse{}
	for _, id := range sortedKeys(rt.containers) {
		c := rt.containers[id]
		if c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		resp.Stats = append(resp.Stats, rt.usage(c))
	}
	return resp, nil
}

// ContainerStats implements the CRI.
func (rt *Runtime) ContainerStats(_ context.Context, r *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c, err := rt.findContainer(r.GetContainerId())
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "failed to find container: not found")
	}
	return &runtimeapi.ContainerStatsResponse{Stats: rt.usage(c)}, nil
}

// SetMemory sets the memory usage, in bytes, of the containers with the given name.
func (rt *Runtime) SetMemory(name string, bytes uint64) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.memory == nil {
		rt.memory = map[string]uint64{}
	}
	rt.memory[name] = bytes
}

// usage returns the resource usage of a container. The caller must hold rt.mu.
func (rt *Runtime) usage(c *container) *runtimeapi.ContainerStats {
	now, memory := time.Now(), uint64(1<<20)
	if set, ok := rt.memory[c.config.GetMetadata().GetName()]; ok {
		memory = set
	}
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{Id: c.id, Metadata: c.config.GetMetadata(), Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations()},
		Cpu: &runtimeapi.CpuUsage{Timestamp: now.UnixNano(), UsageNanoCores: &runtimeapi.UInt64Value{},
			UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: 1e9 + uint64(rt.options.cores*float64(max(0, now.UnixNano()-c.startedAt)))}},
		Memory: &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: memory}, UsageBytes: &runtimeapi.UInt64Value{Value: memory}},
	}
}
