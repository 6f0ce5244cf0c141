package cmd

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// tableOptions say which columns a table of pods has, and what time it is.
type tableOptions struct {
	Wide       bool // IP and NODE
	Namespaces bool // NAMESPACE, for -A
	Now        time.Time
}

// podTable prints pods as kubectl get pods does, in the order given: nothing,
// not even the headings, when there are none.
func podTable(w io.Writer, pods []corev1.Pod, o tableOptions) error {
	if len(pods) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0) // kubectl's widths
	row := func(cells ...string) {
		for i := range cells {
			cells[i] = oneLine(cells[i])
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	row(podColumns(o, "NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE")...)
	for i := range pods {
		pod := &pods[i]
		sum := summarize(pod)
		row(podColumns(o,
			pod.Namespace,
			pod.Name,
			fmt.Sprintf("%d/%d", sum.ready, sum.total),
			sum.status,
			restartsCell(sum, o.Now),
			ageCell(pod.CreationTimestamp, o.Now),
			orNone(pod.Status.PodIP),
			orNone(pod.Spec.NodeName),
		)...)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print pods: %w", err)
	}
	return nil
}

// podColumns takes the cells that the options ask for: the first is the
// namespace, the last two are wide.
func podColumns(o tableOptions, cells ...string) []string {
	if !o.Wide {
		cells = cells[:len(cells)-2]
	}
	if !o.Namespaces {
		cells = cells[1:]
	}
	return cells
}

func restartsCell(s podSummary, now time.Time) string {
	if s.restarts == 0 || s.restarted.IsZero() {
		return fmt.Sprint(s.restarts)
	}
	return fmt.Sprintf("%d (%s ago)", s.restarts, duration.HumanDuration(now.Sub(s.restarted)))
}

func ageCell(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}
