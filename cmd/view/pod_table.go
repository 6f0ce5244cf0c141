package view

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run/lookup"
)

// TableOptions specify the columns of a table of pods and the current time.
type TableOptions struct {
	Wide       bool   // IP, NODE, NOMINATED NODE, READINESS GATES, IMAGES and PORTS
	Namespaces bool   // NAMESPACE, for -A
	Prefix     string // prepended to the names, such as pod/
	Now        time.Time
	KnownAt    map[types.UID]time.Time // maps UIDs of pods to the time since which their states may have changed unobserved
	NoHeaders  bool
	Notes      io.Writer // for the footnote that explains KnownAt; nil for none
	// LabelColumns are label keys. Each adds a column with its values. ShowLabels adds a column
	// with all labels.
	LabelColumns []string
	ShowLabels   bool
}

// PodTable prints pods as kubectl get pods does, in the given order. Without pods it
// prints nothing, not even headings. The output is escaped and fitted to the screen.
func PodTable(w io.Writer, s Screen, pods []corev1.Pod, o TableOptions) error {
	if len(pods) == 0 {
		return nil
	}
	rows, mark := PodRows(pods, o, AsOf), "(as of …)"
	if !s.Fits(rows) {
		rows, mark = PodRows(pods, o, AsOfMark), "*"
	}
	if note := asOfNote(pods, o, mark); note != "" && o.Notes != nil {
		defer fmt.Fprintln(o.Notes, s.Wrap(note))
	}
	if o.Notes != nil {
		for i := range pods {
			if note := pendingNote(&pods[i], o.Now); note != "" {
				defer fmt.Fprintln(o.Notes, s.Wrap("pod "+pods[i].Namespace+"/"+pods[i].Name+": "+note))
			}
		}
	}
	return o.Print(w, s, rows)
}

// Print writes a table. If the terminal is too narrow for columns that the user requested, the terminal wraps the lines
// and podrun does not truncate them.
func (o TableOptions) Print(w io.Writer, s Screen, rows [][]Cell) error {
	if s.Hides(rows) && (o.Wide || o.ShowLabels || len(o.LabelColumns) > 0) {
		s.Width = 0
	}
	return s.Table(w, rows)
}

// PodRows returns the rows of a table of pods. Age formats the time since which a state may
// have changed (KnownAt).
func PodRows(pods []corev1.Pod, o TableOptions, age func(known, now time.Time) string) [][]Cell {
	t := Table{Namespaces: o.Namespaces, NoHeaders: o.NoHeaders}
	t.Head(o.columns(nil, "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES", "IMAGES", "PORTS")...)
	for i := range pods {
		pod := &pods[i]
		sum := Summarize(pod)
		status := sum.Status + age(o.KnownAt[pod.UID], o.Now)
		t.Row(pod.Namespace, o.columns(pod,
			o.Prefix+pod.Name,
			fmt.Sprintf("%d/%d", sum.ready, sum.total),
			status,
			restartsCell(sum, o.Now),
			AgeCell(pod.CreationTimestamp, o.Now),
			OrNone(pod.Status.PodIP),
			OrNone(pod.Spec.NodeName),
			OrNone(pod.Status.NominatedNodeName),
			gatesCell(pod),
			imagesCell(pod),
			portsCell(pod),
		)...)
		t.Color(status, HueOf(strings.TrimSuffix(strings.SplitN(sum.Status, " ", 2)[0], ",")))
	}
	return t.Rows
}

// gatesCell counts the readiness gates whose condition is true.
func gatesCell(pod *corev1.Pod) string {
	met := 0
	for _, g := range pod.Spec.ReadinessGates {
		for _, c := range pod.Status.Conditions {
			if c.Type == g.ConditionType && c.Status == corev1.ConditionTrue {
				met++
			}
		}
	}
	if len(pod.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	return Ready(int32(met), int32(len(pod.Spec.ReadinessGates)))
}

// imagesCell lists the images of the app containers, as kubectl does for workloads.
func imagesCell(pod *corev1.Pod) string {
	var images []string
	for i := range pod.Spec.Containers {
		images = append(images, pod.Spec.Containers[i].Image)
	}
	return OrNone(strings.Join(images, ","))
}

// portsCell lists the ports of the containers, each with the port of the host that podrun forwards to it, such as
// 80->8080/TCP. It prints the address if the port is bound to one address only.
func portsCell(pod *corev1.Pod) string {
	var ports []string
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for _, p := range containers[i].Ports {
				ports = append(ports, portCell(p))
			}
		}
	}
	return OrNone(strings.Join(ports, ","))
}

func portCell(p corev1.ContainerPort) string {
	port := fmt.Sprintf("%d/%s", p.ContainerPort, cmp.Or(p.Protocol, corev1.ProtocolTCP))
	switch {
	case p.HostPort == 0:
		return port
	case p.HostIP == "" || p.HostIP == "0.0.0.0" || p.HostIP == "::":
		return fmt.Sprintf("%d->%s", p.HostPort, port)
	}
	return net.JoinHostPort(p.HostIP, fmt.Sprint(p.HostPort)) + "->" + port
}

// wideColumns is the number of columns that -o wide adds.
const wideColumns = 6

// columns returns the cells of a pod that the options request, with its labels. The last cells are for -o wide. Without a
// pod, it returns the headings.
func (o TableOptions) columns(pod *corev1.Pod, cells ...string) []string {
	if !o.Wide {
		cells = cells[:len(cells)-wideColumns]
	}
	if pod == nil {
		return append(cells, o.LabelHeadings()...)
	}
	return append(cells, o.LabelCells(pod.Labels)...)
}

// LabelHeadings returns kubectl's headings: the last part of each label key, in upper
// case.
func (o TableOptions) LabelHeadings() []string {
	var out []string
	for _, key := range o.LabelColumns {
		out = append(out, strings.ToUpper(key[strings.LastIndex(key, "/")+1:]))
	}
	if o.ShowLabels {
		out = append(out, "LABELS")
	}
	return out
}

// LabelCells returns the cells below LabelHeadings.
func (o TableOptions) LabelCells(have map[string]string) []string {
	var out []string
	for _, key := range o.LabelColumns {
		out = append(out, have[key])
	}
	if o.ShowLabels {
		out = append(out, OrNone(labels.FormatLabels(have)))
	}
	return out
}

// AsOf returns a suffix for a state that was observed at a given time, "known", and may have
// changed since then. If known is zero, the state is current, and AsOf returns "".
func AsOf(known, now time.Time) string {
	if known.IsZero() {
		return ""
	}
	return " (as of " + duration.HumanDuration(now.Sub(known)) + " ago)"
}

// AsOfMark is AsOf for a narrow screen.
func AsOfMark(known, _ time.Time) string {
	if known.IsZero() {
		return ""
	}
	return "*"
}

// asOfNote returns the footnote that explains the mark of states that may have changed since
// they were observed, or "" if no state has the mark.
func asOfNote(pods []corev1.Pod, o TableOptions, mark string) string {
	var old []corev1.Pod
	for _, p := range pods {
		if !o.KnownAt[p.UID].IsZero() {
			old = append(old, p)
		}
	}
	name := "NAME"
	switch {
	case len(old) == 0:
		return ""
	case len(old) == 1 && old[0].Namespace == "default":
		name = shellword.Quote(old[0].Name)
	case len(old) == 1:
		name = shellword.Quote(old[0].Name) + " -n " + shellword.Quote(old[0].Namespace)
	}
	return mark + ": no command probes the pod now, so READY is the result of the last probes; run 'podrun serve' to probe pods continuously, or 'podrun wait " + name + "' to probe this pod until it is ready"
}

// pendingNote describes the definition of a pod that 'podrun serve' could not put into effect. It returns "" if there
// is none.
func pendingNote(pod *corev1.Pod, now time.Time) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == lookup.UpdatePending {
			return OneLine(c.Reason + " for " + duration.HumanDuration(now.Sub(c.LastTransitionTime.Time)) + ": " + c.Message)
		}
	}
	return ""
}

func restartsCell(s podSummary, now time.Time) string {
	if s.Restarts == 0 || s.restarted.IsZero() {
		return fmt.Sprint(s.Restarts)
	}
	return fmt.Sprintf("%d (%s ago)", s.Restarts, duration.HumanDuration(now.Sub(s.restarted)))
}

func AgeCell(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

func OrNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}
