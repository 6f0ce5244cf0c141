package cmd

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
)

// describeObjects describes the selected objects.
func (a *app) describeObjects(c *cobra.Command, f *describeFlags, s selection) error {
	match, err := grammar.ParseSelector(f.selector)
	if err != nil {
		return grammar.Usage(c, err)
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
			err = describe(a.raw.Out, screen, now, func(d *view.Description) { d.ConfigMap(object, f.events) })
		case *corev1.Secret:
			err = describe(a.raw.Out, screen, now, func(d *view.Description) { d.Secret(object, o.lost) })
		case *corev1.Service:
			events := eventsOfService(engine, r, f.events, object)
			err = describe(a.raw.Out, screen, now, func(d *view.Description) { d.Service(object, o.service.Slices, o.service.Origin, events) })
		case *discoveryv1.EndpointSlice:
			events := eventsOfService(engine, r, f.events, o.service.Service)
			err = describe(a.raw.Out, screen, now, func(d *view.Description) { d.Service(o.service.Service, o.service.Slices, o.service.Origin, events) })
		case *corev1.Pod:
			err = view.DescribePod(a.raw.Out, screen, o.pod, readEvents(engine, r, f.events, o.pod), a.observedAt[o.pod.UID], now)
		default:
			events := eventsOfPods(engine, r, f.events, slices.Concat(o.pods, o.jobPods))
			err = describe(a.raw.Out, screen, now, func(d *view.Description) { d.Workload(object, o.pods, events) })
		}
		if err != nil {
			return err
		}
	}
	return missing
}

// describe prints the output of write, after it has escaped the text and fitted it to the screen.
func describe(w io.Writer, s view.Screen, now time.Time, write func(*view.Description)) error {
	var text bytes.Buffer
	d := &view.Description{Out: tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0), Now: now} // kubectl's widths
	write(d)
	if err := d.Out.Flush(); err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	_, err := io.WriteString(w, view.FitDescription(s, text.String()))
	return err
}

// eventsOfService returns the events of a Service. If they are not wanted, it returns nil.
func eventsOfService(e *run.Node, r *renderer, wanted bool, s *corev1.Service) []event.Event {
	if !wanted {
		return nil
	}
	events, err := lookup.ServiceEvents(e, s.Namespace, s.Name)
	if err != nil {
		r.warn(problem.List{problem.WarningOf(err)})
	}
	return append([]event.Event{}, events...)
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
