package cmd

import (
	"context"
	"time"

	"github.com/podrun/podrun/internal/event"
)

// eventWatch is what a watch of events needs.
type eventWatch struct {
	read   func(context.Context) ([]event.Event, error) // those that the journals have
	stream func(context.Context) (<-chan event.Event, error)
	wanted func(event.Event) bool
	show   func([]event.Event) error
}

// shownEvents are the events that were shown, by what they say, with the time of their
// last occurrence.
type shownEvents map[event.Event]time.Time

// news are those events of a list that were not shown yet, or have occurred again.
func (s shownEvents) news(list []event.Event) []event.Event {
	var out []event.Event
	for _, e := range list {
		key := event.Event{Type: e.Type, Reason: e.Reason, Namespace: e.Namespace, Pod: e.Pod, UID: e.UID, FieldPath: e.FieldPath, Message: e.Message}
		if last, shown := s[key]; shown && !e.Time.After(last) {
			continue
		}
		s[key] = e.Time
		out = append(out, e)
	}
	return out
}

// forget drops what was shown a while before the oldest of a list: a watch may last for
// months.
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

// maxShown is how many events a watch remembers before it forgets old ones.
const maxShown = 10000

// watchEvents shows the events of the journals, and then those that happen, until ctx
// ends: as the supervisor reports them where one runs, and what the journals have beside
// that of other commands.
func watchEvents(ctx context.Context, w eventWatch) error {
	shown := shownEvents{}
	var stream <-chan event.Event
	for {
		if stream == nil {
			stream, _ = w.stream(ctx) // none without a supervisor
		}
		list, err := w.read(ctx)
		if err != nil {
			return ended(ctx, err)
		}
		if news := shown.news(list); len(news) > 0 {
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
				if news := shown.news([]event.Event{e}); w.wanted(e) && len(news) > 0 {
					if err := w.show(news); err != nil {
						return err
					}
				}
			}
		}
	}
}
