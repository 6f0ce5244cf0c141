package cmd

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
)

// describeObjects describes the selected objects.
func (a *app) describeObjects(c *cobra.Command, f *describeFlags, s selection) error {
	match, err := parseSelector(f.selector)
	if err != nil {
		return usage(c, err)
	}
	r := &renderer{w: a.streams.Err}
	engine, closeAll, err := a.engine(c.Context(), r, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	objects, missing, err := a.readObjects(c.Context(), engine, a.namespaceRead(f.allNamespaces), s)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o found) bool { return !match(o.meta.GetLabels()) })
	if len(objects) == 0 && missing == nil {
		fmt.Fprintln(a.streams.Err, "no objects found")
	}
	screen, now := a.screenOf(a.outTerminal), time.Now()
	for i, o := range objects {
		if i > 0 {
			fmt.Fprint(a.streams.Out, "\n\n")
		}
		switch object := o.Object.(type) {
		case *corev1.ConfigMap:
			err = describe(a.raw.Out, screen, now, func(d *description) { d.configMap(object, f.events) })
		case *corev1.Secret:
			err = describe(a.raw.Out, screen, now, func(d *description) { d.secret(object, o.lost) })
		case *corev1.Service:
			err = describe(a.raw.Out, screen, now, func(d *description) { d.service(object, o.service.Slices, o.service.Origin, f.events) })
		case *discoveryv1.EndpointSlice:
			err = describe(a.raw.Out, screen, now, func(d *description) { d.service(o.service.Service, o.service.Slices, o.service.Origin, f.events) })
		case *corev1.Pod:
			err = describePod(a.raw.Out, screen, o.pod, readEvents(engine, r, f.events, o.pod), a.observedAt[o.pod.UID], now)
		default:
			events := eventsOfPods(engine, r, f.events, slices.Concat(o.pods, o.jobPods))
			err = describe(a.raw.Out, screen, now, func(d *description) { d.workload(object, o.pods, events) })
		}
		if err != nil {
			return err
		}
	}
	return missing
}

// describe prints the output of write, after it has escaped the text and fitted it to the screen.
func describe(w io.Writer, s screen, now time.Time, write func(*description)) error {
	var text bytes.Buffer
	d := &description{out: tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0), now: now} // kubectl's widths
	write(d)
	if err := d.out.Flush(); err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	_, err := io.WriteString(w, fitDescription(s, text.String()))
	return err
}

// eventsOfPods returns the events of the pods of a workload, in the order of their times. If they are not
// wanted, it returns nil.
func eventsOfPods(e *run.Node, r *renderer, wanted bool, pods []*corev1.Pod) []event.Event {
	if !wanted {
		return nil
	}
	out := []event.Event{}
	for _, pod := range pods {
		out = append(out, readEvents(e, r, wanted, pod)...)
	}
	slices.SortStableFunc(out, func(a, b event.Event) int { return a.Time.Compare(b.Time) })
	return out
}

// configMap writes a ConfigMap as 'kubectl describe configmap' (v1.36) does; keys are sorted.
func (d *description) configMap(m *corev1.ConfigMap, events bool) {
	d.metadata(&m.ObjectMeta)
	d.row(0, "\nData\n====")
	for _, key := range slices.Sorted(maps.Keys(m.Data)) {
		d.row(0, key+":\n----\n"+m.Data[key]+"\n")
	}
	d.row(0, "\nBinaryData\n====")
	for _, key := range slices.Sorted(maps.Keys(m.BinaryData)) {
		d.row(0, key+": "+strconv.Itoa(len(m.BinaryData[key]))+" bytes")
	}
	d.row(0)
	if events { // podrun has no events of ConfigMaps
		d.row(0, "Events:", "<none>")
	}
}

// secret writes a Secret as 'kubectl describe secret' (v1.36) does: the sizes of the values, but not the values.
func (d *description) secret(s *corev1.Secret, lost error) {
	d.metadata(&s.ObjectMeta)
	d.row(0, "\nType:", string(s.Type))
	d.row(0, "\nData\n====")
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		d.row(0, key+":", strconv.Itoa(len(s.Data[key]))+" bytes")
	}
	if lost != nil {
		d.row(0, lost.Error())
	}
}

// metadata writes the first rows of an object other than a pod.
func (d *description) metadata(meta *metav1.ObjectMeta) {
	d.row(0, "Name:", meta.Name)
	d.row(0, "Namespace:", meta.Namespace)
	d.labelsAndAnnotations(meta)
}

func (d *description) labelsAndAnnotations(meta *metav1.ObjectMeta) {
	d.list("Labels", pairs(meta.Labels))
	d.list("Annotations", annotationLines(meta.Annotations))
}
