package source

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
)

// Intervals of a watch. A watch signals a change when no further change has followed for the time
// quiet, but at the latest after the time bound. Two signals are separated by at least the duration apart. At the
// interval identityCheck, it compares the directory at the path with the one that it watches, because a mount over a
// directory causes no event.
const (
	quiet         = 10 * time.Millisecond
	apart         = 100 * time.Millisecond
	bound         = time.Second
	identityCheck = time.Second
	rearmDelay    = 20 * time.Millisecond
	closeWait     = time.Second
	defaultRelist = 20 * time.Second // fileCheckFrequency of a KubeletConfiguration
)

// WatchOptions are the inputs of Watch.
type WatchOptions struct {
	Dirs   []string      // absolute; see Reader.Dirs
	Relist time.Duration // maximum interval between two signals; 0 means 20 s
	// Also receives signals of changes of other sources; nil for none.
	Also <-chan struct{}
	// Report is called once when a directory cannot be watched, and once when podrun can watch it
	// again. Its calls are not concurrent. It may be nil.
	Report func(problem.Problem)
}

// Watch sends a signal to changed when the content of a directory may have changed, and at least
// once per Relist. If a directory does not exist, it watches the nearest existing parent. It does
// not watch the targets of symbolic links that lead out of the directory, so their changes are
// found only after Relist. The watch ends when ctx ends or stop is called. stop waits for that at
// most 1 s, because a file system may hang.
func Watch(ctx context.Context, o WatchOptions) (changed <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	changed, ended := watch(ctx, o)
	return changed, func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(closeWait):
		}
	}
}

// watch is Watch. It closes ended when all its goroutines have ended.
func watch(ctx context.Context, o WatchOptions) (changed, ended <-chan struct{}) {
	if o.Relist <= 0 {
		o.Relist = defaultRelist
	}
	signals := wait.NewSignal()
	events := wait.NewSignal()
	var followers sync.WaitGroup
	var reporting sync.Mutex
	for _, dir := range o.Dirs {
		f := &follower{dir: dir, retry: o.Relist, events: events, newWatcher: fsnotify.NewWatcher, report: func(p problem.Problem) {
			reporting.Lock()
			defer reporting.Unlock()
			if o.Report != nil {
				o.Report(p)
			}
		}}
		followers.Go(func() { f.run(ctx) })
	}
	if o.Also != nil {
		followers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-o.Also:
					events.Send()
				}
			}
		})
	}
	followers.Go(func() { debounce(ctx, events, signals, o.Relist) })
	all := make(chan struct{})
	go func() {
		followers.Wait()
		close(all)
	}()
	return signals, all
}

// debounce turns bursts of events into single signals.
func debounce(ctx context.Context, events <-chan struct{}, signals wait.Signal, relist time.Duration) {
	ticker := time.NewTicker(wait.Period(relist))
	defer ticker.Stop()
	timer := time.NewTimer(relist)
	timer.Stop()
	defer timer.Stop()
	var first, sent time.Time // first is zero if no change is pending
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			now := time.Now()
			if first.IsZero() {
				first = now
			}
			due := later(now.Add(quiet), sent.Add(apart))
			if last := first.Add(bound); due.After(last) {
				due = last
			}
			timer.Reset(due.Sub(now))
			continue
		case <-timer.C:
		case <-ticker.C:
			ticker.Reset(wait.Period(relist))
		}
		first, sent = time.Time{}, time.Now()
		timer.Stop()
		signals.Send()
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// follower watches one directory. Each follower has its own inotify instance, so that a
// directory that hangs in the kernel does not block the others.
type follower struct {
	dir        string
	retry      time.Duration
	events     wait.Signal
	report     func(problem.Problem)
	newWatcher func() (*fsnotify.Watcher, error)
	// the failure to watch the directory has been reported
	failed bool
}

// run watches until ctx ends. Each iteration watches the directory that is at the path now, or
// its nearest parent.
func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		delay := rearmDelay
		if err := f.watchUntilReplaced(ctx); err != nil {
			delay = f.retry
			if !f.failed {
				f.report(problem.Problem{File: printable(f.dir), Reason: "WatchFailed", Warning: true,
					Message: "cannot be watched: " + err.Error() + "; podrun polls it for changes every " + f.retry.String(),
					Hint:    "increase fs.inotify.max_user_watches and fs.inotify.max_user_instances with sysctl"})
			}
			f.failed = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

// watchUntilReplaced returns nil when another directory has replaced the watched one, or when ctx ends.
func (f *follower) watchUntilReplaced(ctx context.Context) error {
	w, err := f.newWatcher()
	if err != nil {
		return err
	}
	defer w.Close()
	target, id := nearest(f.dir)
	if err := w.Add(target); err != nil {
		if _, now := nearest(f.dir); now != id {
			// The directory has just been replaced.
			return nil
		}
		return err
	}
	if f.failed {
		f.failed = false
		f.report(problem.Problem{File: printable(f.dir), Reason: "WatchResumed", Message: "is watched again", Warning: true})
	}
	// Changes may have happened while nothing was watched.
	f.events.Send()
	ticker := time.NewTicker(wait.Period(identityCheck))
	defer ticker.Stop()
	for {
		check := false
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Events:
			if !ok {
				return nil
			}
			if target == f.dir {
				f.events.Send()
			}
			check = e.Name == target || target != f.dir && strings.HasPrefix(f.dir+"/", e.Name+"/")
		case _, ok := <-w.Errors:
			if !ok {
				return nil
			}
			f.events.Send() // events were lost
			check = true
		case <-ticker.C:
			ticker.Reset(wait.Period(identityCheck))
			check = true
		}
		if !check {
			continue
		}
		if path, now := nearest(f.dir); path != target || now != id {
			f.events.Send()
			return nil
		}
	}
}

// nearest returns the directory or, if it does not exist, its nearest existing parent.
func nearest(dir string) (string, Identity) {
	for {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err == nil || dir == "/" {
			return dir, Identity{Device: uint64(st.Dev), Inode: st.Ino}
		}
		dir = filepath.Dir(dir)
	}
}
