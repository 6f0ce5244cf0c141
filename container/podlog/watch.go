package podlog

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/podrun/podrun/internal/wait"
)

// watch sends to changed when a log changes or is rotated. It returns the interval for additional
// checks. This interval is shorter if the kernel does not provide a watch, for example because the
// user's inotify instances are exhausted. It watches the directory, because a rotation renames the
// file.
func watch(path string) (changed <-chan struct{}, look time.Duration, stop func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, lookUnwatched, func() {}
	}
	if err := w.Add(filepath.Dir(path)); err != nil {
		w.Close()
		return nil, lookUnwatched, func() {}
	}
	ch := wait.NewSignal()
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

// wakeup forwards events until the watcher is closed. An error of the watcher means that events
// were lost, so wakeup treats the error as an event.
func wakeup(w *fsnotify.Watcher, path string, ch wait.Signal) {
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			// The names of rotated files begin with the log's name.
			if !strings.HasPrefix(filepath.Base(e.Name), filepath.Base(path)) {
				continue
			}
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
		}
		ch.Send()
	}
}
