package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/serve"
)

// eventsFlags are the flags of events.
type eventsFlags struct {
	allNamespaces, watch, noHeaders bool
	of                              string
	types                           []string
}

// NewEvents returns the command events.
func NewEvents(a *cli.App) *cobra.Command {
	f := &eventsFlags{}
	c := &cobra.Command{
		Use:   "events [NAME...]",
		Short: "Show the events of pods and Services",
		Long: `Show the events of the namespace's pods and Services, or of the named ones, sorted
by the time of their last occurrence, as 'kubectl events' does. A name is that of a
pod; write svc/NAME for a Service. Events are deleted with their object. With --watch, also print new events as they occur, whether they come from
'podrun serve' or from another command; -o json then prints one object per line.`,
		Example: `  podrun events
  podrun events web --watch
  podrun events --for svc/web
  podrun events -A --types Warning
  podrun events -o json | jq -r '.items[].reason'`,
		RunE: func(c *cobra.Command, named []string) error { return runEvents(a, c, f, named) },
	}
	c.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "pods in all namespaces")
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "after the existing events, print new ones as they occur")
	c.Flags().BoolVar(&f.noHeaders, "no-headers", false, "do not print column headings")
	c.Flags().StringVar(&f.of, "for", "", "show the events of this `object` (pod/NAME, svc/NAME)")
	c.Flags().StringSliceVar(&f.types, "types", nil, "only events of these `types` (Normal,Warning)")
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print as wide, json, yaml, name or jsonl (podrun's own events, one JSON object per line)")
	return c
}

func runEvents(a *cli.App, c *cobra.Command, f *eventsFlags, given []string) error {
	if f.of != "" {
		given = append(given, f.of)
	}
	given, services := grammar.SplitServices(given)
	refs, err := grammar.PodRefs(given, false)
	if err != nil {
		return err
	}
	if err := cli.CheckOutput(a.Output, "wide", "json", "yaml", "name", "jsonl"); err != nil {
		return err
	}
	if f.watch && a.Output == "yaml" {
		return grammar.Usage(c, errors.New("--watch prints a table, names or, with -o json or jsonl, one object per line"))
	}
	for i, t := range f.types {
		if f.types[i] = event.Normal; strings.EqualFold(t, event.Warning) {
			f.types[i] = event.Warning
		} else if !strings.EqualFold(t, event.Normal) {
			return grammar.Usage(c, fmt.Errorf("--types: %q is neither Normal nor Warning", t))
		}
	}
	settings, notes, err := a.Settings.Settings()
	if err != nil {
		return err
	}
	r := &cli.Renderer{W: a.Streams.Err}
	a.WarnAbout(r, notes)
	named, missing := grammar.Resolve(settings.Layout(), namespaceRead(a, f.allNamespaces), refs)
	if missing != nil {
		return missing
	}
	wanted := eventsWanted(a, f, named, services)
	read := func(ctx context.Context) ([]event.Event, error) {
		list, err := lookup.EventsOf(ctx, settings.Layout(), wanted)
		if err != nil && ctx.Err() == nil && list != nil { // show the events of the other pods
			r.Warn(problem.List{problem.WarningOf(err)})
			err = nil
		}
		return slices.DeleteFunc(list, func(e event.Event) bool { return !f.shows(e) }), err
	}
	shown := 0
	show := func(list []event.Event) error {
		defer func() { shown += len(list) }()
		return printEvents(a, list, f, shown == 0)
	}
	if !f.watch {
		list, err := read(c.Context())
		if err == nil && len(list) == 0 && (a.Output == "" || a.Output == "wide") {
			fmt.Fprintln(a.Streams.Err, "no events found")
		}
		return errors.Join(err, show(list))
	}
	return watchEvents(c.Context(), eventWatch{read: read, show: show,
		wanted: func(e event.Event) bool {
			kind, name := e.Object()
			return wanted(kind, identity.Pod{Namespace: e.Namespace, Name: name}) && f.shows(e)
		},
		stream: func(ctx context.Context) (<-chan event.Event, error) {
			return serve.WatchEvents(ctx, settings.Layout())
		}})
}

// eventsWanted returns a function that selects the named pods and Services, or all if none is named.
func eventsWanted(a *cli.App, f *eventsFlags, pods, services []string) func(kind string, id identity.Pod) bool {
	namespace := a.NamespaceOrDefault("default")
	named := map[string][]string{"Pod": pods, apikind.Service: services}
	return func(kind string, id identity.Pod) bool {
		return (f.allNamespaces || id.Namespace == namespace) && (len(pods)+len(services) == 0 || slices.Contains(named[kind], id.Name))
	}
}

// shows reports whether the flags select events of e's type.
func (f *eventsFlags) shows(e event.Event) bool {
	return len(f.types) == 0 || slices.Contains(f.types, e.Type)
}
