package view

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/resource"
)

// DescribePod prints a pod exactly as `kubectl describe pod` (v1.36) does, followed by its
// events, oldest first. If events is nil, it prints no table of events. Times are in the time
// zone of now. The text is escaped and fitted to the screen. Known is the time at which the
// state was observed; the zero time means now.
func DescribePod(w io.Writer, s Screen, pod *corev1.Pod, events []event.Event, known, now time.Time) error {
	d := NewDescription(now)
	d.known = known
	d.identity(pod)
	d.state(pod)
	if len(pod.Spec.InitContainers) > 0 {
		d.Containers("Init Containers", pod, pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	}
	d.Containers("Containers", pod, pod.Spec.Containers, pod.Status.ContainerStatuses)
	if len(pod.Spec.EphemeralContainers) > 0 {
		d.Containers("Ephemeral Containers", pod, Ephemeral(pod), pod.Status.EphemeralContainerStatuses)
	}
	d.conditions(pod)
	d.Volumes(pod.Spec.Volumes)
	d.row(0, "QoS Class:", string(resource.QOSClass(pod)))
	d.List("Node-Selectors", Pairs(pod.Spec.NodeSelector))
	d.tolerations(&pod.Spec)
	d.topologySpread(&pod.Spec)
	if events != nil {
		d.events(events, func(event.Event) string { return "" })
	}
	return d.Text.Print(w, s)
}

// Description is the text of describe.
type Description struct {
	Text Aligned
	now  time.Time
	// known is the time at which the pod's state was observed; the zero time means now.
	known time.Time
	// inTemplate is true while a pod template is written, which is indented.
	inTemplate bool
}

// NewDescription returns an empty description, with the current time for ages.
func NewDescription(now time.Time) *Description { return &Description{now: now} }

// titleIndent returns the indentation of the titles of a pod's sections.
func (d *Description) titleIndent() string {
	if d.inTemplate {
		return "  "
	}
	return ""
}

// nameIndent returns the indentation of the names of containers and volumes, after that of their depth.
func (d *Description) nameIndent() string { return d.titleIndent()[:len(d.titleIndent())/2] }

// row writes one row, indented by two spaces per level of depth.
func (d *Description) row(depth int, cells ...string) {
	d.Text.Row(strings.Repeat("  ", depth) + strings.Join(cells, "\t"))
}

// List writes a title, and the values next to it, one per line.
func (d *Description) List(title string, values []string) {
	if len(values) == 0 {
		d.row(0, title+":", "<none>")
		return
	}
	for i, v := range values {
		if i > 0 {
			title = ""
		} else {
			title += ":"
		}
		d.row(0, title, v)
	}
}

// optionalRow writes a row only if there is a value. The second and later lines of a value are
// indented: a container controls its termination message, and lines at column 0 could
// imitate sections of the description.
func (d *Description) optionalRow(depth int, title, value string) {
	if value == "" {
		return
	}
	lines := strings.Split(value, "\n")
	d.row(depth, title+":", lines[0])
	for _, line := range lines[1:] {
		if line == "" {
			d.row(0) // as kubectl prints it
		} else {
			d.row(depth, "", line)
		}
	}
}

func (d *Description) time(t metav1.Time) string {
	if t.IsZero() {
		// kubectl prints the zero time in UTC, regardless of the time zone.
		return t.Time.Format(time.RFC1123Z)
	}
	return t.Time.In(d.now.Location()).Format(time.RFC1123Z)
}

func (d *Description) since(t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(d.now.Sub(t))
}

// identity writes the rows that identify the pod, such as its name, namespace and node.
func (d *Description) identity(pod *corev1.Pod) {
	d.row(0, "Name:", pod.Name)
	d.row(0, "Namespace:", pod.Namespace)
	if pod.Spec.Priority != nil {
		d.row(0, "Priority:", fmt.Sprint(*pod.Spec.Priority))
	}
	d.optionalRow(0, "Priority Class Name", pod.Spec.PriorityClassName)
	if pod.Spec.RuntimeClassName != nil {
		d.optionalRow(0, "Runtime Class Name", *pod.Spec.RuntimeClassName)
	}
	d.optionalRow(0, "Service Account", pod.Spec.ServiceAccountName)
	if pod.Spec.NodeName == "" {
		d.row(0, "Node:", "<none>")
	} else {
		d.row(0, "Node:", pod.Spec.NodeName+"/"+pod.Status.HostIP)
	}
	if pod.Status.StartTime != nil {
		d.row(0, "Start Time:", d.time(*pod.Status.StartTime))
	}
	d.List("Labels", Pairs(pod.Labels))
	d.List("Annotations", AnnotationLines(pod.Annotations))
}

// Pairs returns the entries of a map as key=value, sorted.
func Pairs(m map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return out
}

// longestAnnotation is the length in bytes up to which kubectl prints an annotation on
// one line.
const longestAnnotation = 140

// AnnotationLines returns the annotations, sorted. A long or multi-line value begins on
// its own line.
func AnnotationLines(annotations map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		if k == corev1.LastAppliedConfigAnnotation {
			continue
		}
		value := strings.TrimSuffix(annotations[k], "\n")
		if len(k)+len(value)+2 <= longestAnnotation && !strings.Contains(value, "\n") {
			out = append(out, k+": "+value)
			continue
		}
		out = append(out, k+":")
		for _, line := range strings.Split(value, "\n") {
			if len(line) > longestAnnotation-2 {
				line = line[:longestAnnotation-2] + "..."
			}
			out = append(out, "  "+line)
		}
	}
	return out
}

// state writes the status of the pod as a whole.
func (d *Description) state(pod *corev1.Pod) {
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if pod.DeletionTimestamp != nil && !ended {
		// kubectl counts from the deletion timestamp, which is in the future until the grace period expires
		begun := pod.DeletionTimestamp.Time
		if grace := pod.DeletionGracePeriodSeconds; grace != nil {
			begun = begun.Add(-time.Duration(*grace) * time.Second)
		}
		d.row(0, "Status:", "Terminating (lasts "+d.since(begun)+")")
		if grace := pod.DeletionGracePeriodSeconds; grace != nil {
			d.row(0, "Termination Grace Period:", fmt.Sprintf("%ds", *grace))
		}
	} else {
		d.row(0, "Status:", string(pod.Status.Phase)+AsOf(d.known, d.now))
	}
	d.optionalRow(0, "Reason", pod.Status.Reason)
	d.optionalRow(0, "Message", pod.Status.Message)
	d.optionalRow(0, "Update Pending", pendingNote(pod, d.now))
	if sc := pod.Spec.SecurityContext; sc != nil {
		d.seccomp(0, 0, sc.SeccompProfile)
	}
	d.row(0, "IP:", pod.Status.PodIP)
	if len(pod.Status.PodIPs) == 0 {
		d.row(0, "IPs:", "<none>")
	} else {
		d.row(0, "IPs:")
	}
	for _, ip := range pod.Status.PodIPs {
		d.row(1, "IP:", ip.IP)
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		d.row(0, "Controlled By:", owner.Kind+"/"+owner.Name)
	}
	if pod.Spec.Resources != nil {
		d.row(0, "Resources:")
		d.amounts(1, "Limits", pod.Spec.Resources.Limits)
		d.amounts(1, "Requests", pod.Spec.Resources.Requests)
	}
}

// seccomp writes a profile and, at pathDepth, its file.
func (d *Description) seccomp(depth, pathDepth int, p *corev1.SeccompProfile) {
	if p == nil {
		return
	}
	d.row(depth, "SeccompProfile:", string(p.Type))
	if p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil {
		d.row(pathDepth, "LocalhostProfile:", *p.LocalhostProfile)
	}
}

// amounts lists resources by name. It writes nothing if there are none.
func (d *Description) amounts(depth int, title string, list corev1.ResourceList) {
	if len(list) == 0 {
		return
	}
	d.row(depth, title+":")
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		d.row(depth+1, string(name)+":", q.String())
	}
}

// conditions lists the readiness gates and the pod's conditions.
func (d *Description) conditions(pod *corev1.Pod) {
	have := map[corev1.PodConditionType]string{}
	for _, c := range pod.Status.Conditions {
		have[c.Type] = string(c.Status)
	}
	if len(pod.Spec.ReadinessGates) > 0 {
		d.row(0, "Readiness Gates:")
		d.row(1, "Type", "Status")
	}
	for _, g := range pod.Spec.ReadinessGates {
		d.row(1, string(g.ConditionType)+" ", OrNone(have[g.ConditionType])+" ")
	}
	if len(pod.Status.Conditions) > 0 {
		d.row(0, "Conditions:")
		d.row(1, "Type", "Status")
	}
	for _, c := range pod.Status.Conditions {
		d.row(1, string(c.Type)+" ", string(c.Status)+" ")
	}
}

func (d *Description) tolerations(spec *corev1.PodSpec) {
	var lines []string
	for _, t := range sortedBy(spec.Tolerations, func(t corev1.Toleration) string { return t.Key }) {
		lines = append(lines, tolerationLine(t))
	}
	d.List(d.titleIndent()+"Tolerations", lines)
}

func (d *Description) topologySpread(spec *corev1.PodSpec) {
	var lines []string
	for _, c := range sortedBy(spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) string { return c.TopologyKey }) {
		line := fmt.Sprintf("%s:%s when max skew %d is exceeded", c.TopologyKey, c.WhenUnsatisfiable, c.MaxSkew)
		if c.LabelSelector != nil {
			line += " for selector " + metav1.FormatLabelSelector(c.LabelSelector)
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 {
		d.List(d.titleIndent()+"Topology Spread Constraints", lines)
	}
}

// tolerationLine returns key=value:effect, with the operator and the duration if set.
func tolerationLine(t corev1.Toleration) string {
	line := t.Key
	if t.Value != "" {
		line += "=" + t.Value
	}
	if t.Effect != "" {
		line += ":" + string(t.Effect)
	}
	if t.Operator == corev1.TolerationOpExists && t.Value == "" {
		line = strings.TrimLeft(line+" op=Exists", " ")
	}
	if t.TolerationSeconds != nil {
		line += fmt.Sprintf(" for %ds", *t.TolerationSeconds)
	}
	return line
}

// sortedBy returns a sorted copy, because the pod belongs to the caller.
func sortedBy[T any](list []T, key func(T) string) []T {
	return slices.SortedStableFunc(slices.Values(list), func(a, b T) int { return strings.Compare(key(a), key(b)) })
}
