package cmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
)

// tableOptions specify the columns of a table of pods and the current time.
type tableOptions struct {
	Wide       bool // IP and NODE
	Namespaces bool // NAMESPACE, for -A
	Now        time.Time
	KnownAt    map[types.UID]time.Time // by UID, the time since which a pod's state may have changed unobserved
	NoHeaders  bool
	// LabelColumns are label keys, each of which adds a column with its values;
	// ShowLabels adds a column with all labels.
	LabelColumns []string
	ShowLabels   bool
}

// podTable prints pods as kubectl get pods does, in the given order. Without pods it
// prints nothing, not even headings. The output is escaped and fitted to the screen.
func podTable(w io.Writer, s screen, pods []corev1.Pod, o tableOptions) error {
	if len(pods) == 0 {
		return nil
	}
	var rows [][]cell
	row := func(status string, texts ...string) {
		cells := make([]cell, len(texts))
		for i, text := range texts {
			if cells[i].text = oneLine(text); status != "" && text == status {
				cells[i].hue = hueOf(strings.TrimSuffix(strings.SplitN(status, " ", 2)[0], ","))
			}
		}
		rows = append(rows, cells)
	}
	if !o.NoHeaders {
		row("", append(podColumns(o, "NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"), labelHeadings(o)...)...)
	}
	for i := range pods {
		pod := &pods[i]
		sum := summarize(pod)
		status := sum.status + asOf(o.KnownAt[pod.UID], o.Now)
		row(status, append(podColumns(o,
			pod.Namespace,
			pod.Name,
			fmt.Sprintf("%d/%d", sum.ready, sum.total),
			status,
			restartsCell(sum, o.Now),
			ageCell(pod.CreationTimestamp, o.Now),
			orNone(pod.Status.PodIP),
			orNone(pod.Spec.NodeName),
		), labelCells(o, pod)...)...)
	}
	if err := s.table(w, rows); err != nil {
		return fmt.Errorf("print pods: %w", err)
	}
	return nil
}

// podColumns selects the cells that the options request: the first is the namespace, the
// last two require -o wide.
func podColumns(o tableOptions, cells ...string) []string {
	if !o.Wide {
		cells = cells[:len(cells)-2]
	}
	if !o.Namespaces {
		cells = cells[1:]
	}
	return cells
}

// labelHeadings returns kubectl's headings: the last part of each label key, in upper
// case.
func labelHeadings(o tableOptions) []string {
	var out []string
	for _, key := range o.LabelColumns {
		out = append(out, strings.ToUpper(key[strings.LastIndex(key, "/")+1:]))
	}
	if o.ShowLabels {
		out = append(out, "LABELS")
	}
	return out
}

func labelCells(o tableOptions, pod *corev1.Pod) []string {
	var out []string
	for _, key := range o.LabelColumns {
		out = append(out, pod.Labels[key])
	}
	if o.ShowLabels {
		out = append(out, orNone(labels.FormatLabels(pod.Labels)))
	}
	return out
}

// asOf returns a suffix for a state that was observed at that time and may have changed
// since; zero means now.
func asOf(known, now time.Time) string {
	if known.IsZero() {
		return ""
	}
	return " (as of " + duration.HumanDuration(now.Sub(known)) + " ago)"
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
