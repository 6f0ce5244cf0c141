package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve"
)

// eventsFlags are the flags of events.
type eventsFlags struct {
	allNamespaces, watch, noHeaders bool
	of                              string
	types                           []string
}

func newEvents(a *app) *cobra.Command {
	f := &eventsFlags{}
	c := &cobra.Command{
		Use:   "events [NAME...]",
		Short: "Show the events of pods",
		Long: `Show the events of the namespace's pods, or of the named pods, sorted by the time
of their last occurrence, as 'kubectl events' does. A pod's events are deleted with
the pod. With --watch, also print new events as they occur, whether they come from
'podrun serve' or from another command.`,
		Example: `  podrun events
  podrun events web --watch
  podrun events -A --types Warning`,
		RunE: func(c *cobra.Command, named []string) error { return a.runEvents(c, f, named) },
	}
	c.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "pods in all namespaces")
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "after the existing events, print new ones as they occur")
	c.Flags().BoolVar(&f.noHeaders, "no-headers", false, "print no column headings")
	c.Flags().StringVar(&f.of, "for", "", "show the events of this `pod` (pod/NAME)")
	c.Flags().StringSliceVar(&f.types, "types", nil, "only events of these `types` (Normal,Warning)")
	c.Flags().StringVarP(&a.output, "output", "o", "", "json prints one event per line")
	return c
}

func (a *app) runEvents(c *cobra.Command, f *eventsFlags, given []string) error {
	if f.of != "" {
		given = append(given, f.of)
	}
	named, err := podNames(given, false)
	if err != nil {
		return err
	}
	if err := checkOutput(a.output, "json"); err != nil {
		return err
	}
	for i, t := range f.types {
		if f.types[i] = event.Normal; strings.EqualFold(t, event.Warning) {
			f.types[i] = event.Warning
		} else if !strings.EqualFold(t, event.Normal) {
			return usage(c, fmt.Errorf("--types: %q is neither Normal nor Warning", t))
		}
	}
	settings, notes, err := a.settings.settings()
	if err != nil {
		return err
	}
	r := &renderer{w: a.streams.Err}
	a.warnAbout(r, notes)
	wanted := a.eventsWanted(f, named)
	read := func(ctx context.Context) ([]event.Event, error) {
		list, err := run.EventsOf(ctx, settings.Layout(), func(id identity.Pod) bool { return wanted(event.Event{Namespace: id.Namespace, Pod: id.Name}) })
		if err != nil && ctx.Err() == nil && list != nil { // the events of the other pods are shown
			r.warn(problem.List{problem.WarningOf(err)})
			err = nil
		}
		return slices.DeleteFunc(list, func(e event.Event) bool { return !f.shows(e) }), err
	}
	shown := 0
	show := func(list []event.Event) error {
		defer func() { shown += len(list) }()
		return a.printEvents(a.streams.Out, list, f, shown == 0)
	}
	if !f.watch {
		list, err := read(c.Context())
		if err == nil && len(list) == 0 && a.output == "" {
			fmt.Fprintln(a.streams.Err, "no events found")
		}
		return errors.Join(err, show(list))
	}
	return watchEvents(c.Context(), eventWatch{read: read, show: show,
		wanted: func(e event.Event) bool { return wanted(e) && f.shows(e) },
		stream: func(ctx context.Context) (<-chan event.Event, error) {
			return serve.WatchEvents(ctx, settings.Layout())
		}})
}

// eventsWanted returns a function that selects the events of the named pods.
func (a *app) eventsWanted(f *eventsFlags, named []string) func(event.Event) bool {
	namespace := a.namespace
	if namespace == "" {
		namespace = "default"
	}
	return func(e event.Event) bool {
		return (f.allNamespaces || e.Namespace == namespace) && (len(named) == 0 || slices.Contains(named, e.Pod))
	}
}

// shows reports whether the flags select events of that type.
func (f *eventsFlags) shows(e event.Event) bool {
	return len(f.types) == 0 || slices.Contains(f.types, e.Type)
}

// printEvents prints events as kubectl events does, or as one JSON object per line.
func (a *app) printEvents(w io.Writer, list []event.Event, f *eventsFlags, first bool) error {
	if a.output == "json" {
		encoder := json.NewEncoder(a.raw.Out)
		for _, e := range list {
			if err := encoder.Encode(e); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0) // kubectl's widths
	row := func(namespace string, cells ...string) {
		if f.allNamespaces {
			cells = append([]string{namespace}, cells...)
		}
		for i := range cells {
			cells[i] = oneLine(cells[i])
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if first && !f.noHeaders {
		row("NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
	}
	now := time.Now()
	for _, e := range list {
		seen := duration.HumanDuration(now.Sub(e.Time))
		if e.Count > 1 {
			seen = fmt.Sprintf("%s (x%d over %s)", seen, e.Count, duration.HumanDuration(now.Sub(e.First)))
		}
		row(e.Namespace, seen, e.Type, e.Reason, "Pod/"+e.Pod, strings.TrimSpace(e.Message))
	}
	return tw.Flush()
}
