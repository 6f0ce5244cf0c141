package inspect

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// describeObjects describes the selected objects.
func describeObjects(a *cli.App, c *cobra.Command, f *describeFlags, s Selection) error {
	from, closeAll, err := f.open(a, c)
	if err != nil {
		return err
	}
	defer closeAll()
	objects, missing, err := ReadObjects(c.Context(), a, from.node, namespaceRead(a, f.allNamespaces), s)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o Object) bool { return !from.match(o.Meta.GetLabels()) })
	if len(objects) == 0 && missing == nil {
		fmt.Fprintln(a.Streams.Err, "no objects found")
	}
	screen, now := a.ScreenOf(a.OutTerminal), time.Now()
	for i, o := range objects {
		if i > 0 {
			fmt.Fprint(a.Streams.Out, "\n\n")
		}
		switch object := o.Object.(type) {
		case *corev1.ConfigMap:
			err = describe(a.Raw.Out, screen, now, func(d *view.Description) { d.ConfigMap(object, f.events) })
		case *corev1.Secret:
			err = describe(a.Raw.Out, screen, now, func(d *view.Description) { d.Secret(object, o.lost) })
		case *corev1.Service:
			events := eventsOfService(from.node, from.r, f.events, object)
			err = describe(a.Raw.Out, screen, now, func(d *view.Description) { d.Service(object, o.service.Slices, o.service.Origin, events) })
		case *discoveryv1.EndpointSlice:
			events := eventsOfService(from.node, from.r, f.events, o.service.Service)
			err = describe(a.Raw.Out, screen, now, func(d *view.Description) { d.Service(o.service.Service, o.service.Slices, o.service.Origin, events) })
		case *corev1.Pod:
			err = view.DescribePod(a.Raw.Out, screen, o.pod, readEvents(from.node, from.r, f.events, o.pod), a.ObservedAt[o.pod.UID], now)
		default:
			events := eventsOfPods(from.node, from.r, f.events, slices.Concat(o.pods, o.jobPods))
			err = describe(a.Raw.Out, screen, now, func(d *view.Description) { d.Workload(object, o.pods, events) })
		}
		if err != nil {
			return err
		}
	}
	return missing
}

// describe prints the output of write, after it has escaped the text and fitted it to the screen.
func describe(w io.Writer, s view.Screen, now time.Time, write func(*view.Description)) error {
	d := view.NewDescription(now)
	write(d)
	return d.Text.Print(w, s)
}

// eventsOfService returns the events of a Service. If they are not wanted, it returns nil.
func eventsOfService(node *run.Node, r *cli.Renderer, wanted bool, s *corev1.Service) []event.Event {
	if !wanted {
		return nil
	}
	events, err := lookup.ServiceEvents(node, s.Namespace, s.Name)
	if err != nil {
		r.Warn(problem.List{problem.WarningOf(err)})
	}
	return append([]event.Event{}, events...)
}

// eventsOfPods returns the events of the pods of a workload, in the order of their times. If they are not
// wanted, it returns nil.
func eventsOfPods(node *run.Node, r *cli.Renderer, wanted bool, pods []*corev1.Pod) []event.Event {
	if !wanted {
		return nil
	}
	out := []event.Event{}
	for _, pod := range pods {
		out = append(out, readEvents(node, r, wanted, pod)...)
	}
	slices.SortStableFunc(out, func(a, b event.Event) int { return a.Time.Compare(b.Time) })
	return out
}
