package nodeapi

import (
	"sync"

	"github.com/podrun/podrun/internal/event"
)

// Limits of a Feed.
const (
	maxWatchers = 64
	// the number of events by which a watcher may lag behind
	feedBuffer = 1024
)

// Feed forwards events to watchers. The zero value has no watchers.
type Feed struct {
	mu       sync.Mutex
	watchers map[*Watcher]bool
}

// Watcher receives events. C is closed if the watcher reads too slowly. The watcher does not
// receive events after that.
type Watcher struct {
	C    <-chan event.Event
	c    chan event.Event
	feed *Feed
}

// Emit is an event.Sink. It never blocks: it drops a watcher whose buffer is full.
func (f *Feed) Emit(e event.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watchers {
		select {
		case w.c <- e:
		default:
			delete(f.watchers, w)
			close(w.c)
		}
	}
}

// Watch returns a watcher for new events, or nil if there are too many watchers. The caller
// must call Stop at the end.
func (f *Feed) Watch() *Watcher {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.watchers) >= maxWatchers {
		return nil
	}
	c := make(chan event.Event, feedBuffer)
	w := &Watcher{C: c, c: c, feed: f}
	if f.watchers == nil {
		f.watchers = map[*Watcher]bool{}
	}
	f.watchers[w] = true
	return w
}

// Stop ends the watch. It may be called more than once.
func (w *Watcher) Stop() {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	delete(w.feed.watchers, w)
}
