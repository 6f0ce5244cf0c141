package nodeapi

import (
	"github.com/prometheus/client_golang/prometheus"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// The kubelet's resource metrics (pkg/kubelet/metrics/collectors/resource_metrics.go).
var (
	nodeCPUDesc         = desc("node_cpu_usage_seconds_total", "Cumulative cpu time consumed by the node in core-seconds")
	nodeMemoryDesc      = desc("node_memory_working_set_bytes", "Current working set of the node in bytes")
	nodeSwapDesc        = desc("node_swap_usage_bytes", "Current swap usage of the node in bytes")
	containerCPUDesc    = desc("container_cpu_usage_seconds_total", "Cumulative cpu time consumed by the container in core-seconds", "container", "pod", "namespace")
	containerMemoryDesc = desc("container_memory_working_set_bytes", "Current working set of the container in bytes", "container", "pod", "namespace")
	containerSwapDesc   = desc("container_swap_usage_bytes", "Current amount of the container swap usage in bytes", "container", "pod", "namespace")
	containerStartDesc  = desc("container_start_time_seconds", "Start time of the container since unix epoch in seconds", "container", "pod", "namespace")
	podCPUDesc          = desc("pod_cpu_usage_seconds_total", "Cumulative cpu time consumed by the pod in core-seconds", "pod", "namespace")
	podMemoryDesc       = desc("pod_memory_working_set_bytes", "Current working set of the pod in bytes", "pod", "namespace")
	scrapeErrorDesc     = desc("resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise")
)

// resourceCollector produces the resource metrics of one summary. The summary is nil if it
// could not be read.
type resourceCollector struct{ summary *statsapi.Summary }

// Describe implements prometheus.Collector. It describes no metrics, because their set depends on
// the runtime.
func (resourceCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c resourceCollector) Collect(out chan<- prometheus.Metric) {
	give := func(d *prometheus.Desc, kind prometheus.ValueType, v *uint64, unit float64, labels ...string) {
		if v == nil {
			return
		}
		if metric, err := prometheus.NewConstMetric(d, kind, float64(*v)/unit, labels...); err == nil {
			out <- metric
		}
	}
	const counter, gauge, nano = prometheus.CounterValue, prometheus.GaugeValue, 1e9
	failed := uint64(1)
	if s := c.summary; s != nil {
		failed = 0
		give(nodeCPUDesc, counter, cpuOf(s.Node.CPU), nano)
		give(nodeMemoryDesc, gauge, memoryOf(s.Node.Memory), 1)
		give(nodeSwapDesc, gauge, swapOf(s.Node.Swap), 1)
		pods := map[[2]string]bool{}
		for _, p := range s.Pods {
			id := [2]string{p.PodRef.Name, p.PodRef.Namespace}
			// A duplicate name would make the scrape fail, so only the first pod with a name
			// counts.
			if pods[id] {
				continue
			}
			pods[id] = true
			give(podCPUDesc, counter, cpuOf(p.CPU), nano, id[:]...)
			give(podMemoryDesc, gauge, memoryOf(p.Memory), 1, id[:]...)
			seen := map[string]bool{}
			for _, k := range p.Containers {
				if seen[k.Name] {
					continue
				}
				seen[k.Name] = true
				labels := []string{k.Name, id[0], id[1]}
				start := uint64(max(0, k.StartTime.UnixNano()))
				give(containerStartDesc, gauge, &start, nano, labels...)
				give(containerCPUDesc, counter, cpuOf(k.CPU), nano, labels...)
				give(containerMemoryDesc, gauge, memoryOf(k.Memory), 1, labels...)
				give(containerSwapDesc, gauge, swapOf(k.Swap), 1, labels...)
			}
		}
	}
	give(scrapeErrorDesc, gauge, &failed, 1)
}

func cpuOf(s *statsapi.CPUStats) *uint64 {
	if s == nil {
		return nil
	}
	return s.UsageCoreNanoSeconds
}

func memoryOf(s *statsapi.MemoryStats) *uint64 {
	if s == nil {
		return nil
	}
	return s.WorkingSetBytes
}

func swapOf(s *statsapi.SwapStats) *uint64 {
	if s == nil {
		return nil
	}
	return s.SwapUsageBytes
}
