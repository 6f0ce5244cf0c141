package podlog

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watch signals when a log changes or is rotated, and determines the interval of
// additional checks. If the kernel provides no watch, for example because the user's
// inotify instances are exhausted, the log is checked more often. The directory is
// watched, because a rotation renames the file.
func watch(path string) (changed <-chan struct{}, look time.Duration, stop func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, lookUnwatched, func() {}
	}
	if err := w.Add(filepath.Dir(path)); err != nil {
		w.Close()
		return nil, lookUnwatched, func() {}
	}
	ch := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		wakeup(w, path, ch)
	}()
	return ch, lookWatched, func() {
		w.Close()
		<-done
	}
}

// wakeup signals events until the watcher is closed. An error of the watcher
// means that events were lost, which is an event.
func wakeup(w *fsnotify.Watcher, path string, ch chan<- struct{}) {
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			// Rotated files keep the name as the head of theirs.
			if !strings.HasPrefix(filepath.Base(e.Name), filepath.Base(path)) {
				continue
			}
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
		}
		select {
		case ch <- struct{}{}:
		default: // one is waiting already
		}
	}
}
