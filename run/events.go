package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/store"
)

// Events returns the events of a pod, aggregated, in the order of their last
// occurrence; none if it has no journal. Those of a pod with another UID that it replaced
// are not its events.
func (e *Engine) Events(uid string) ([]event.Event, error) {
	all, err := store.ReadJournal(e.Layout(), uid)
	return slices.DeleteFunc(all, func(e event.Event) bool { return e.UID != "" && e.UID != uid }), err
}

// EventsOf returns the events of the selected pods of a root directory, in the order of
// their last occurrence. If there is an error, it names the pods whose events could not
// be read, and the events of the other pods are returned.
func EventsOf(ctx context.Context, layout identity.Layout, wanted func(identity.Pod) bool) ([]event.Event, error) {
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
		if !wanted(id) {
			continue
		}
		list, err := store.ReadJournal(layout, id.UID)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s: read its events: %w", id, err))
		}
		out = append(out, list...)
	}
	slices.SortStableFunc(out, func(a, b event.Event) int { return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano()) })
	return out, errors.Join(errs...)
}
