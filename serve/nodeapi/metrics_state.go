package nodeapi

import (
	"github.com/prometheus/client_golang/prometheus"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	nodeNameDesc    = desc("kubelet_node_name", "The node's name. The count is always 1.", "node")
	runningPodsDesc = desc("kubelet_running_pods", "Number of pods that have a running pod sandbox")
	containersDesc  = desc("kubelet_running_containers", "Number of containers by state", "container_state")
	probesDesc      = desc("prober_probe_total", "Cumulative number of a liveness, readiness or startup probe for a container by result.",
		"probe_type", "result", "container", "pod", "namespace", "pod_uid")
	restartsDesc   = desc("podrun_container_restarts_total", "Number of restarts of a container (the restartCount of its status).", "container", "pod", "namespace")
	supervisedDesc = desc("podrun_supervised_pods", "Number of pods by the supervisor's state", "state")
	rejectedDesc   = desc("podrun_rejected_definitions", "Number of pods whose definition in the source was rolled back, and has not changed since")
	runtimeUpDesc  = desc("podrun_runtime_up", "1 while the container runtime answers, else 0")
	sourceUpDesc   = desc("podrun_source_up", "1 if the manifest source could be read, and all its files are valid, else 0", "source")
	sourcePodsDesc = desc("podrun_source_pods", "Number of pods in the valid files of a manifest source", "source")
)

// stateCollector produces metrics of the supervisor's state for each scrape.
type stateCollector struct {
	metrics *Metrics
	node    string
	state   func() State
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{nodeNameDesc, runningPodsDesc, containersDesc, probesDesc, restartsDesc, supervisedDesc, rejectedDesc, runtimeUpDesc, sourceUpDesc, sourcePodsDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector. It omits metrics with a label that is not UTF-8. Such
// labels are possible because other programs also use the runtime and choose names that become
// labels.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	give := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		if metric, err := prometheus.NewConstMetric(d, kind, v, labels...); err == nil {
			out <- metric
		}
	}
	s := c.state()
	give(nodeNameDesc, prometheus.GaugeValue, 1, c.node)
	give(runningPodsDesc, prometheus.GaugeValue, float64(s.RunningPods))
	for state, n := range s.Containers {
		give(containersDesc, prometheus.GaugeValue, float64(n), state)
	}
	for r, n := range c.metrics.probed(s.Known) {
		give(probesDesc, prometheus.CounterValue, n, r.Type, r.Result, r.Container, r.Pod, r.Namespace, r.UID)
	}
	for name, n := range s.Restarts {
		give(restartsDesc, prometheus.CounterValue, float64(n), name.Container, name.Pod, name.Namespace)
	}
	for state, n := range s.Pods {
		give(supervisedDesc, prometheus.GaugeValue, float64(n), state)
	}
	give(rejectedDesc, prometheus.GaugeValue, float64(s.Rejected))
	give(runtimeUpDesc, prometheus.GaugeValue, truth(!s.Down))
	seen := map[string]bool{}
	for _, source := range s.Sources {
		// Several URLs may differ only in their queries.
		if seen[source.Name] {
			continue
		}
		seen[source.Name] = true
		give(sourceUpDesc, prometheus.GaugeValue, truth(source.ok()), source.Name)
		give(sourcePodsDesc, prometheus.GaugeValue, float64(source.Pods), source.Name)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// ok reports whether podrun could read the source, and all its files are valid.
func (s Source) ok() bool { return s.Why == "" && len(s.Problems) == 0 }

// SourceCheck returns the check of the sources for /readyz.
func SourceCheck(sources []Source) []Check {
	if sources == nil {
		return []Check{{Name: "sources", Reason: "not read yet"}}
	}
	out := []Check{}
	for _, s := range sources {
		out = append(out, Check{Name: "source " + oneLine(s.Name), Reason: s.unready(nil)})
	}
	return out
}
