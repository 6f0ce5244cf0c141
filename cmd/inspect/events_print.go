package inspect

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
)

// printEvents prints events in the format of -o. First is true if nothing has been printed
// yet.
func printEvents(a *cli.App, list []event.Event, f *eventsFlags, first bool) error {
	switch a.Output {
	case "jsonl":
		return writeLines(a, list, func(e event.Event) any { return e })
	case "json", "yaml":
		if f.watch {
			return writeLines(a, list, func(e event.Event) any { return coreEvent(e) })
		}
		return view.PrintData(a.Raw.Out, a.Output, eventList(list))
	case "name":
		for _, e := range list {
			fmt.Fprintln(a.Streams.Out, "event/"+eventName(e))
		}
		return nil
	}
	return eventTable(a, list, f, first)
}

// writeLines writes each event as one line of JSON.
func writeLines(a *cli.App, list []event.Event, as func(event.Event) any) error {
	for _, e := range list {
		data, err := json.Marshal(as(e))
		if err != nil {
			return fmt.Errorf("print events: %w", err)
		}
		if _, err := fmt.Fprintf(a.Raw.Out, "%s\n", view.EscapeJSON(data)); err != nil {
			return err
		}
	}
	return nil
}

// eventTable prints events as kubectl events does. With -o wide, it prints them as kubectl get events -o wide does.
func eventTable(a *cli.App, list []event.Event, f *eventsFlags, first bool) error {
	if len(list) == 0 {
		return nil
	}
	table := view.Table{Namespaces: f.allNamespaces, NoHeaders: !first || f.noHeaders}
	wide := a.Output == "wide"
	if wide {
		table.Head("LAST SEEN", "TYPE", "REASON", "OBJECT", "SUBOBJECT", "SOURCE", "MESSAGE", "FIRST SEEN", "COUNT", "NAME")
	} else {
		table.Head("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
	}
	now := time.Now()
	for _, e := range list {
		seen := duration.HumanDuration(now.Sub(e.Time))
		kind, name := e.Object()
		object, message := kind+"/"+name, strings.TrimSpace(e.Message)
		if wide {
			c := coreEvent(e)
			table.Row(e.Namespace, seen, e.Type, e.Reason, object, e.FieldPath, c.Source.Component, message,
				duration.HumanDuration(now.Sub(c.FirstTimestamp.Time)), strconv.Itoa(int(c.Count)), c.Name)
			continue
		}
		if e.Count > 1 {
			seen = fmt.Sprintf("%s (x%d over %s)", seen, e.Count, duration.HumanDuration(now.Sub(e.First)))
		}
		table.Row(e.Namespace, seen, e.Type, e.Reason, object, message)
	}
	return table.Print(a.Streams.Out)
}

// eventList returns events as kubectl get events -o json prints them.
func eventList(list []event.Event) *corev1.EventList {
	out := &corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: []corev1.Event{}}
	for _, e := range list {
		out.Items = append(out.Items, coreEvent(e))
	}
	return out
}

// coreEvent returns an event as the API server would return it.
func coreEvent(e event.Event) corev1.Event {
	first := e.First
	if first.IsZero() {
		first = e.Time
	}
	kind, name := e.Object()
	return corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: eventName(e), CreationTimestamp: metav1.NewTime(first)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1",
			Kind:       kind,
			Namespace:  e.Namespace,
			Name:       name,
			UID:        types.UID(e.UID),
			FieldPath:  e.FieldPath,
		},
		Type:                e.Type,
		Reason:              e.Reason,
		Message:             e.Message,
		Count:               int32(max(e.Count, 1)),
		FirstTimestamp:      metav1.NewTime(first),
		LastTimestamp:       metav1.NewTime(e.Time),
		Source:              corev1.EventSource{Component: "podrun"},
		ReportingController: "podrun",
	}
}

// eventName returns the name that client-go gives an event: the object's name, and the time of
// the first occurrence in nanoseconds, in hexadecimal.
func eventName(e event.Event) string {
	at := e.Time
	if !e.First.IsZero() {
		at = e.First
	}
	_, name := e.Object()
	return fmt.Sprintf("%s.%x", name, at.UnixNano())
}
