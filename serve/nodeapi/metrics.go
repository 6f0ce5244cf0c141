package nodeapi

import (
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
)

// Buckets of the kubelet's histograms (pkg/kubelet/metrics/metrics.go, v1.36).
var (
	startBuckets = []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	pullBuckets  = []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	callBuckets  = prometheus.ExponentialBuckets(.005, 2.5, 14)
)

// maxPending limits the number of pods whose start is being measured. maxProbes limits the
// number of probe series.
const (
	maxPending = 10000
	maxProbes  = 10000
)

// Metrics counts operations and events. A metric that the kubelet also has has the kubelet's name.
// Metrics is safe for concurrent use, and its methods never wait for a scrape.
type Metrics struct {
	registry *prometheus.Registry

	starts             prometheus.Histogram
	startedPods        prometheus.Counter
	startedContainers  *prometheus.CounterVec
	pulls              *prometheus.HistogramVec
	relists, intervals prometheus.Histogram
	lastSeen           prometheus.Gauge
	evictions          *prometheus.CounterVec
	rollbacks          *prometheus.CounterVec
	calls, callErrors  *prometheus.CounterVec
	callSeconds        *prometheus.HistogramVec
	mu                 sync.Mutex                 // guards all fields below
	pending            map[identity.Pod]time.Time // time at which the start of each pod began
	probes             map[ProbeResult]float64
}

// State is the supervisor's data for a scrape of /metrics.
type State struct {
	// Known contains the UIDs of the pods on this host. Metrics drops the series of all other pods.
	Known       map[string]bool
	RunningPods int
	// Containers counts containers by the kubelet's container_state: created, exited,
	// running, unknown.
	Containers map[string]int
	Restarts   map[ContainerName]uint32
	Pods       map[string]int // number of pods in each state of the supervisor
	Sources    []Source
	Rejected   int  // number of pods whose definition in the source was rolled back
	Down       bool // true if the runtime does not respond
}

// ContainerName identifies a container of a pod.
type ContainerName struct{ Namespace, Pod, Container string }

// ProbeResult identifies the results of a probe, with the kubelet's labels.
type ProbeResult struct {
	ContainerName
	UID    string
	Type   string // Startup, Readiness or Liveness
	Result string // successful, failed or unknown
}

// NewMetrics returns metrics with zero counts. The function state is called for each scrape, and
// must not block.
func NewMetrics(nodeName string, state func() State) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), pending: map[identity.Pod]time.Time{}, probes: map[ProbeResult]float64{}}
	m.starts = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "kubelet_pod_start_duration_seconds",
		Help: "Duration in seconds from when podrun first applies a pod to when its first app container runs.", Buckets: startBuckets})
	m.startedPods = prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_started_pods_total", Help: "Pod sandboxes that were created."})
	m.startedContainers = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubelet_started_containers_total",
		Help: "Containers that were started."}, []string{"container_type"})
	m.pulls = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "kubelet_image_pull_duration_seconds",
		Help: "Duration in seconds of successful image pulls.", Buckets: pullBuckets}, []string{"image_size_in_bytes"})
	m.relists = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "kubelet_pleg_relist_duration_seconds",
		Help: "Duration in seconds of listing the runtime's pods.", Buckets: prometheus.DefBuckets})
	m.intervals = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "kubelet_pleg_relist_interval_seconds",
		Help: "Interval in seconds between listings of the runtime's pods.", Buckets: prometheus.DefBuckets})
	m.lastSeen = prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_pleg_last_seen_seconds",
		Help: "Time of the last complete listing of the runtime's pods, in seconds since 1970."})
	m.evictions = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubelet_evictions",
		Help: "Number of evicted pods, by eviction signal."}, []string{"eviction_signal"})
	m.rollbacks = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "podrun_rollbacks_total",
		Help: "Number of updates of pods that were rolled back, by reason."}, []string{"reason"})
	m.calls = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubelet_runtime_operations_total",
		Help: "Calls to the container runtime."}, []string{"operation_type"})
	m.callErrors = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubelet_runtime_operations_errors_total",
		Help: "Calls to the container runtime that failed."}, []string{"operation_type"})
	m.callSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "kubelet_runtime_operations_duration_seconds",
		Help: "Duration in seconds of calls to the container runtime.", Buckets: callBuckets}, []string{"operation_type"})
	m.registry.MustRegister(m.starts, m.startedPods, m.startedContainers, m.pulls, m.relists, m.intervals, m.lastSeen, m.evictions, m.rollbacks,
		m.calls, m.callErrors, m.callSeconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&stateCollector{metrics: m, node: nodeName, state: state})
	return m
}

// RuntimeCall counts a call of a CRI method.
func (m *Metrics) RuntimeCall(method string, took time.Duration, err error) {
	op := operation(method)
	m.calls.WithLabelValues(op).Inc()
	m.callSeconds.WithLabelValues(op).Observe(took.Seconds())
	if err != nil {
		m.callErrors.WithLabelValues(op).Inc()
	}
	if method == "RunPodSandbox" && err == nil {
		m.startedPods.Inc()
	}
}

// operation returns the kubelet's operation_type for a CRI method, such as run_podsandbox
// (pkg/kubelet/kuberuntime/instrumented_services.go).
func operation(method string) string {
	switch method {
	case "UpdateContainerResources":
		return "update_container"
	}
	method = strings.ReplaceAll(method, "PodSandbox", "Podsandbox")
	var b strings.Builder
	for i, r := range method {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Relisted counts a complete list of the runtime's pods that the hub read at a given time. The
// argument interval is the time since the previous list, or 0 for the first one.
func (m *Metrics) Relisted(at time.Time, took, interval time.Duration) {
	m.relists.Observe(took.Seconds())
	if interval > 0 {
		m.intervals.Observe(interval.Seconds())
	}
	m.lastSeen.Set(float64(at.Unix()))
}

// Evicted counts the eviction of a pod. Evictions are counted by the kubelet's signal, such as
// memory.available.
func (m *Metrics) Evicted(signal string) { m.evictions.WithLabelValues(signal).Inc() }

// RolledBack counts the rollback of an update, by its reason, such as ProgressDeadlineExceeded.
func (m *Metrics) RolledBack(reason string) { m.rollbacks.WithLabelValues(reason).Inc() }

// Pulled counts a successful pull of an image of the given size in bytes.
func (m *Metrics) Pulled(size uint64, took time.Duration) {
	m.pulls.WithLabelValues(sizeBucket(size)).Observe(took.Seconds())
}

// sizeBucket returns the kubelet's label for the size of an image (GetImageSizeBucket in
// pkg/kubelet/metrics).
func sizeBucket(size uint64) string {
	const mb, gb = 1 << 20, 1 << 30
	if size == 0 {
		return "N/A"
	}
	label := "0-10MB"
	for _, b := range []struct {
		above uint64
		label string
	}{{10 * mb, "10MB-100MB"}, {100 * mb, "100MB-500MB"}, {500 * mb, "500MB-1GB"}, {gb, "1GB-5GB"}, {5 * gb, "5GB-10GB"},
		{10 * gb, "10GB-20GB"}, {20 * gb, "20GB-30GB"}, {30 * gb, "30GB-40GB"}, {40 * gb, "40GB-60GB"}, {60 * gb, "60GB-100GB"}, {100 * gb, "GT100GB"}} {
		if size > b.above {
			label = b.label
		}
	}
	return label
}

// PodBegun records the time at which the start of a pod began. It ignores the pod's UID.
func (m *Metrics) PodBegun(id identity.Pod, at time.Time) {
	id.UID = ""
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, begun := m.pending[id]; begun {
		return
	}
	if len(m.pending) == maxPending {
		clear(m.pending) // most of them are pods that never started and have been deleted
	}
	m.pending[id] = at
}

// Event is an event.Sink that counts started containers and pods.
func (m *Metrics) Event(e event.Event) {
	if e.Reason != event.StartedContainer || e.Type != event.Normal {
		return
	}
	if strings.HasPrefix(e.FieldPath, "spec.initContainers{") {
		m.startedContainers.WithLabelValues("init_container").Inc()
		return
	}
	m.startedContainers.WithLabelValues("container").Inc()
	id := identity.Pod{Namespace: e.Namespace, Name: e.Pod}
	m.mu.Lock()
	begun, pending := m.pending[id]
	delete(m.pending, id)
	m.mu.Unlock()
	if pending {
		m.starts.Observe(max(0, e.Time.Sub(begun).Seconds()))
	}
}

// Probed counts the result of a probe.
func (m *Metrics) Probed(r ProbeResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.probes[r]; known || len(m.probes) < maxProbes {
		m.probes[r]++
	}
}

// probed returns the probe counts of known pods, and drops those of other pods.
func (m *Metrics) probed(known map[string]bool) map[ProbeResult]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[ProbeResult]float64, len(m.probes))
	for r, n := range m.probes {
		if !known[r.UID] {
			delete(m.probes, r)
			continue
		}
		out[r] = n
	}
	return out
}
