package inspect

import (
	"context"
	"time"

	"github.com/podrun/podrun/internal/event"
)

// eventWatch has the parameters of watchEvents.
type eventWatch struct {
	read   func(context.Context) ([]event.Event, error) // returns the events in the journals
	stream func(context.Context) (<-chan event.Event, error)
	wanted func(event.Event) bool
	show   func([]event.Event) error
}

// shownEvents maps each event that was shown to the time of its last occurrence. The key is the
// event without its time and count.
type shownEvents map[event.Event]time.Time

// unseen returns the events of a list that were not shown yet, or that have occurred again
// since.
func (s shownEvents) unseen(list []event.Event) []event.Event {
	var out []event.Event
	for _, e := range list {
		key := event.Event{
			Type:      e.Type,
			Reason:    e.Reason,
			Namespace: e.Namespace,
			Pod:       e.Pod,
			Kind:      e.Kind,
			Name:      e.Name,
			UID:       e.UID,
			FieldPath: e.FieldPath,
			Message:   e.Message,
		}
		if last, shown := s[key]; shown && !e.Time.After(last) {
			continue
		}
		s[key] = e.Time
		out = append(out, e)
	}
	return out
}

// forget removes events more than a minute older than the first event in the list, because a
// watch may run for months.
func (s shownEvents) forget(list []event.Event) {
	if len(s) < maxShown || len(list) == 0 {
		return
	}
	for key, at := range s {
		if at.Before(list[0].Time.Add(-time.Minute)) {
			delete(s, key)
		}
	}
}

// maxShown is the number of events that a watch remembers before it removes old ones.
const maxShown = 10000

// watchEvents shows the events in the journals, and then new events until ctx ends. A
// supervisor, if one runs, streams its events; events of other commands are read from the
// journals.
func watchEvents(ctx context.Context, w eventWatch) error {
	shown := shownEvents{}
	var stream <-chan event.Event
	for {
		if stream == nil {
			stream, _ = w.stream(ctx) // nil without a supervisor
		}
		list, err := w.read(ctx)
		if err != nil {
			return ended(ctx, err)
		}
		if news := shown.unseen(list); len(news) > 0 {
			if err := w.show(news); err != nil {
				return err
			}
		}
		shown.forget(list)
		poll := time.After(watchPoll)
		if stream != nil {
			poll = time.After(watchRelist)
		}
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return ended(ctx, ctx.Err())
			case <-poll:
				again = true
			case e, open := <-stream:
				if !open {
					stream, again = nil, true
					break
				}
				if news := shown.unseen([]event.Event{e}); w.wanted(e) && len(news) > 0 {
					if err := w.show(news); err != nil {
						return err
					}
				}
			}
		}
	}
}
