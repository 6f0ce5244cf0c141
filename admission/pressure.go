package admission

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/resource"
)

// reasonEvicted is the kubelet's reason if it evicts a pod. It is also the reason if the
// kubelet refuses a pod that it would have to evict (pkg/kubelet/eviction).
const reasonEvicted = "Evicted"

// signal is an eviction signal. It has the total and the free amount of a resource, and the
// node condition that becomes true if too little is free.
type signal struct {
	name        string
	condition   corev1.NodeConditionType
	total, free int64
	what        string // "memory", "inodes of /var/lib/podrun"
	known       bool
}

// signalsOf returns the eviction signals of a host (pkg/kubelet/eviction), ordered by condition.
// The available memory is the kernel's estimate. The kubelet subtracts the working set from the
// capacity; the result is about the same.
func signalsOf(f host.Facts) []signal {
	memory := f.Capacity[corev1.ResourceMemory]
	out := []signal{{
		name: "memory.available", condition: corev1.NodeMemoryPressure, total: memory.Value(), free: f.MemoryAvailable,
		what: "memory", known: f.MemoryAvailable > 0,
	}}
	for _, fs := range []struct {
		name string
		host.Filesystem
	}{{"nodefs", f.NodeFS}, {"imagefs", f.ImageFS}} {
		out = append(out,
			signal{name: fs.name + ".available", condition: corev1.NodeDiskPressure, total: fs.CapacityBytes, free: fs.AvailableBytes,
				what: "disk space of " + fs.Path, known: fs.CapacityBytes > 0},
			signal{name: fs.name + ".inodesFree", condition: corev1.NodeDiskPressure, total: fs.Inodes, free: fs.InodesFree,
				what: "inodes of " + fs.Path, known: fs.Inodes > 0})
	}
	return append(out, signal{
		name: "pid.available", condition: corev1.NodePIDPressure, total: f.PIDs.Max, free: f.PIDs.Max - f.PIDs.Used,
		what: "process ids", known: f.PIDs.Max > 0,
	})
}

// checkPressure refuses pods if the host is short of memory, disk space or process IDs, like the
// kubelet's eviction manager. If memory pressure is the only condition, it refuses only BestEffort
// pods that do not tolerate this pressure. Otherwise it refuses all pods except critical ones. It
// never refuses a running pod, because the kubelet does not admit a running pod again.
func checkPressure(q question) problem.List {
	short, bad := Shortages(q.facts, q.settings)
	var conditions, why []string
	for _, s := range short {
		why = append(why, s.Why)
		if !slices.Contains(conditions, string(s.Condition)) {
			conditions = append(conditions, string(s.Condition))
		}
	}
	for _, c := range q.facts.Pressure {
		if !slices.Contains(conditions, string(c)) {
			conditions = append(conditions, string(c))
			why = append(why, fmt.Sprintf("the node was under %s less than %s ago (evictionPressureTransitionPeriod)", c, q.settings.EvictionPressureTransitionPeriod))
		}
	}
	if len(conditions) == 0 || critical(q.pod) || q.runs() {
		return bad
	}
	if slices.Equal(conditions, []string{string(corev1.NodeMemoryPressure)}) &&
		(resource.QOSClass(q.pod) != corev1.PodQOSBestEffort || toleratesMemoryPressure(q.pod)) {
		return bad
	}
	return append(bad, problem.Problem{
		Reason: reasonEvicted, Message: fmt.Sprintf("The node had condition: [%s].", strings.Join(conditions, " ")),
		Hint: strings.Join(why, ", ") + ": free resources, or lower evictionHard",
	})
}

// Shortage is a resource of the host that is below an eviction threshold.
type Shortage struct {
	Condition corev1.NodeConditionType
	Why       string // includes the amounts
}

// Shortages returns the resources that are below a hard or soft threshold, ordered by
// condition. It also returns the problems in the thresholds. As in the kubelet, a soft
// threshold sets the node's condition immediately. The grace period has no influence on the
// condition.
func Shortages(f host.Facts, settings nodeconfig.Settings) (short []Shortage, bad problem.List) {
	for _, s := range signalsOf(f) {
		for _, setting := range []struct {
			name       string
			thresholds map[string]string
		}{{"evictionHard", settings.EvictionHard}, {"evictionSoft", settings.EvictionSoft}} {
			value, set := setting.thresholds[s.name]
			if !set || !s.known || nodeconfig.NoThreshold(value) {
				continue
			}
			total := *apiresource.NewQuantity(s.total, apiresource.BinarySI)
			least, err := parseReserved(value, total)
			if err != nil {
				if _, said := evictionSignals[s.name]; !said || setting.name != "evictionHard" { // checkResources reports these
					bad = append(bad, invalidSetting(setting.name+"."+s.name, value, err))
				}
				continue
			}
			if s.free < least.Value() {
				short = append(short, Shortage{s.condition,
					fmt.Sprintf("the node is low on %s: %s is %s, below the %s threshold of %s", s.what, s.name, shown(s, s.free), setting.name, shown(s, least.Value()))})
				// The soft threshold adds no information.
				break
			}
		}
	}
	return short, bad
}

// shown formats an amount of a signal for users.
func shown(s signal, n int64) string {
	format := apiresource.BinarySI
	if strings.HasSuffix(s.name, "inodesFree") || s.name == "pid.available" {
		format = apiresource.DecimalSI
	} else {
		n = n >> 20 << 20 // whole Mi
	}
	return apiresource.NewQuantity(n, format).String()
}

// critical reports whether a pod is critical for the node. It is the kubelet's IsCriticalPod,
// but does not treat a pod as critical because the pod is static.
func critical(pod *corev1.Pod) bool {
	return kubelettypes.IsCriticalPodBasedOnPriority(schedulingv1.PodPriority(pod))
}

func toleratesMemoryPressure(pod *corev1.Pod) bool {
	taint := corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Logger{}, &taint, false)
	})
}

// runs reports whether this pod is already running with the same UID.
func (q question) runs() bool {
	return slices.ContainsFunc(q.replaced, func(p host.Pod) bool { return p.UID == string(q.pod.UID) && p.Ready })
}

func invalidSetting(setting, value string, err error) problem.Problem {
	return problem.Problem{
		Reason: "InvalidSetting", Message: fmt.Sprintf("%s is %q: %v", setting, value, err), Hint: "correct the settings",
	}
}
