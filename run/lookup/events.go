package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// Events returns the aggregated events of a pod, ordered by last occurrence, or none if the
// pod has no journal. Events of a replaced pod with another UID are not included.
func Events(n *node.Node, uid string) ([]event.Event, error) {
	all, err := store.ReadJournal(n.Layout(), uid)
	return slices.DeleteFunc(all, func(n event.Event) bool { return n.UID != "" && n.UID != uid }), err
}

// ServiceEvents returns the aggregated events of a Service, ordered by last occurrence.
func ServiceEvents(n *node.Node, namespace, name string) ([]event.Event, error) {
	return store.ReadServiceJournal(n.Layout(), identity.Pod{Namespace: namespace, Name: name})
}

// EventsOf returns the events of the selected pods and Services of a root directory, ordered by last
// occurrence. The kind is Pod or Service. If the events of some objects could not be read, it returns those of the
// others, and an error that names the failed objects.
func EventsOf(ctx context.Context, layout identity.Layout, wanted func(kind string, id identity.Pod) bool) ([]event.Event, error) {
	stored, err := store.StoredPods(layout)
	if err != nil {
		return nil, err
	}
	var out []event.Event
	var errs []error
	for _, id := range stored {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !wanted("Pod", id) {
			continue
		}
		list, err := store.ReadJournal(layout, id.UID)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s: read its events: %w", id, err))
		}
		out = append(out, list...)
	}
	services, err := store.ServicesWithEvents(layout)
	errs = append(errs, err)
	for _, id := range services {
		if wanted("Service", id) {
			list, err := store.ReadServiceJournal(layout, id)
			if err != nil {
				errs = append(errs, fmt.Errorf("service %s: read its events: %w", id, err))
			}
			out = append(out, list...)
		}
	}
	slices.SortStableFunc(out, func(a, b event.Event) int { return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano()) })
	return out, errors.Join(errs...)
}
