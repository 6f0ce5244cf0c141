package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/internal/event"
)

// TestWatchEvents checks that the watch shows events of a supervisor immediately, events of
// other commands when it reads their journals, and no event twice. When the supervisor exits,
// the watch falls back to polling.
func TestWatchEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		at := func(second int, reason string) event.Event {
			return event.Event{Time: begin.Add(time.Duration(second) * time.Second), Type: event.Normal, Reason: reason, Pod: "web"}
		}
		journal := []event.Event{at(-2, "Pulled"), at(-1, "Started")}
		stream := make(chan event.Event, 4)
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("a signal")
		var shown []string
		opened, reads := 0, 0
		go func() {
			time.Sleep(time.Second)
			e := at(1, "Killing")
			journal = append(journal, e)
			stream <- e
			stream <- at(1, "OfAnother")
			time.Sleep(time.Second)
			journal = append(journal, at(2, "ByCommand"))
			time.Sleep(10 * time.Second)
			close(stream)
			time.Sleep(1500 * time.Millisecond)
			again := at(13, "Started") // once more
			again.Count = 2
			journal = append(journal, again)
			time.Sleep(1500 * time.Millisecond)
			cancel(stopped)
		}()
		err := watchEvents(ctx, eventWatch{
			read: func(context.Context) ([]event.Event, error) { reads++; return journal, nil },
			stream: func(context.Context) (<-chan event.Event, error) {
				if opened++; opened > 1 {
					return nil, errors.New("no supervisor")
				}
				return stream, nil
			},
			wanted: func(e event.Event) bool { return e.Reason != "OfAnother" },
			show: func(list []event.Event) error {
				for _, e := range list {
					shown = append(shown, fmt.Sprintf("%s@%.0f", e.Reason, time.Since(begin).Seconds()))
				}
				return nil
			},
		})
		if want := "Pulled@0 Started@0 Killing@1 ByCommand@5 Started@14"; !errors.Is(err, stopped) || strings.Join(shown, " ") != want {
			t.Errorf("%v, shown %q, want %s", err, shown, want)
		}
		if reads > 8 {
			t.Errorf("the journals were read %d times", reads)
		}
	})
}

// TestShownEventsForget checks that the number of remembered events is limited.
func TestShownEventsForget(t *testing.T) {
	s := shownEvents{}
	begin := time.Now()
	var last []event.Event
	for i := range 3 * maxShown {
		last = []event.Event{{Time: begin.Add(time.Duration(i) * time.Second), Reason: "Started", UID: fmt.Sprint(i)}}
		if len(s.unseen(last)) != 1 {
			t.Fatal("an event is not shown")
		}
		if i%100 == 0 {
			s.forget(last)
		}
	}
	if len(s) > maxShown+100 || len(s.unseen(last)) != 0 {
		t.Errorf("%d events are remembered", len(s))
	}
}
