package admission

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
)

// checkOS refuses a pod for another operating system. Like the kubelet, it checks both spec.os
// and the label.
func checkOS(q question) problem.List {
	var out problem.List
	if spec := q.pod.Spec.OS; spec != nil && string(spec.Name) != q.facts.OS {
		out = append(out, problem.Problem{
			Field: "spec.os.name", Reason: "PodOSNotSupported",
			Message: fmt.Sprintf("Failed to admit pod as the OS field doesn't match node OS: the pod's OS is %s, this host's is %s", spec.Name, q.facts.OS),
		})
	}
	if want, ok := q.pod.Labels[corev1.LabelOSStable]; ok && want != q.facts.OS {
		out = append(out, problem.Problem{
			Field: "metadata.labels[" + corev1.LabelOSStable + "]", Reason: "PodOSSelectorNodeLabelDoesNotMatch",
			Message: fmt.Sprintf("Failed to admit pod as the `%s` label doesn't match node label: the pod's label is %s, this host's is %s", corev1.LabelOSStable, want, q.facts.OS),
		})
	}
	return out
}

// predicate formats the kubelet's message for a failed predicate. It appends details.
func predicate(name, text, detail string) string {
	return "Predicate " + name + " failed: " + text + ": " + detail
}

const (
	affinityText = "node(s) didn't match Pod's node affinity/selector"
	taintText    = "node(s) had taints that the pod didn't tolerate"
)

// checkNodeSelector refuses a pod if its nodeSelector or its required node affinity does not
// match this host's labels.
func checkNodeSelector(q question) problem.List {
	var out problem.List
	if missing := missingLabels(q.pod.Spec.NodeSelector, q.facts.NodeLabels); len(missing) > 0 {
		out = append(out, problem.Problem{
			Field: "spec.nodeSelector", Reason: "NodeAffinity",
			Message: predicate("NodeAffinity", affinityText, "this host lacks the labels "+strings.Join(missing, ", ")),
			Hint:    labelsHint(missing),
		})
	}
	withoutSelector := &corev1.Pod{Spec: corev1.PodSpec{Affinity: q.pod.Spec.Affinity}}
	match, err := nodeaffinity.GetRequiredNodeAffinity(withoutSelector).Match(nodeOf(q.facts))
	if match && err == nil {
		return out
	}
	detail := "this host's labels do not match the pod's node affinity"
	if err != nil {
		detail = err.Error()
	}
	return append(out, problem.Problem{
		Field:  "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
		Reason: "NodeAffinity", Message: predicate("NodeAffinity", affinityText, detail), Hint: "set the labels with --node-labels",
	})
}

// labelsHint returns a hint that says how to set the missing labels. It omits labels that users
// cannot set.
func labelsHint(missing []string) string {
	var given, hints []string
	for _, label := range missing {
		switch key, value, _ := strings.Cut(label, "="); key {
		case corev1.LabelHostname:
			hints = append(hints, "set the node name with --hostname-override "+value)
		case corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch":
		default:
			given = append(given, label)
		}
	}
	if len(given) > 0 {
		hints = append([]string{"set the labels with --node-labels " + strings.Join(given, ",")}, hints...)
	}
	return strings.Join(hints, ", and ")
}

// missingLabels returns the labels that a selector requires and that the node lacks, as sorted
// strings key=value.
func missingLabels(selector, labels map[string]string) []string {
	var out []string
	for key, want := range selector {
		if have, ok := labels[key]; !ok || have != want {
			out = append(out, key+"="+want)
		}
	}
	slices.Sort(out)
	return out
}

// nodeOf returns a Node object that represents this host, as in a cluster.
func nodeOf(f host.Facts) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.NodeName, Labels: f.NodeLabels}}
}

// checkTaints refuses a pod that does not tolerate a NoExecute taint. The other effects concern only the scheduler,
// and podrun has no scheduler.
func checkTaints(q question) problem.List {
	var out problem.List
	for _, taint := range q.facts.NodeTaints {
		tolerated := slices.ContainsFunc(q.pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Logger{}, &taint, false)
		})
		if taint.Effect == corev1.TaintEffectNoExecute && !tolerated {
			out = append(out, problem.Problem{
				Field: "spec.tolerations", Reason: "TaintToleration",
				Message: predicate("TaintToleration", taintText, "this host has "+taint.ToString()),
				Hint:    "add a toleration",
			})
		}
	}
	return out
}

// checkShutdown refuses all pods that are not running yet while the host shuts down, like the kubelet's shutdown
// manager (pkg/kubelet/nodeshutdown).
func checkShutdown(q question) problem.List {
	if !q.facts.ShuttingDown || q.runs() {
		return nil
	}
	return list(problem.Problem{Field: "spec", Reason: event.NodeShutdown, Message: "Pod was rejected as the node is shutting down.",
		Hint: "wait until the host has rebooted"})
}
