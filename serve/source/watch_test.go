package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// watched starts a watch without relists, and discards its first signals.
func watched(t *testing.T, dir string) <-chan struct{} {
	t.Helper()
	changed, stop := Watch(t.Context(), WatchOptions{Dirs: []string{dir}, Relist: time.Hour})
	t.Cleanup(stop)
	await(t, changed, "the first signal")
	return changed
}

func await(t *testing.T, changed <-chan struct{}, what string) {
	t.Helper()
	patience.Receive(t, "a signal: "+what, changed)
}

// calm discards signals until none arrives for a while.
func calm(changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-time.After(3 * apart / 2):
			return
		}
	}
}

func TestWatchChanges(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "a", "b")
	changed := watched(t, dir)
	for _, c := range []struct {
		what string
		do   func() error
	}{
		{"a missing directory is made", func() error { return os.MkdirAll(dir, 0o755) }},
		{"a file is written", func() error { return os.WriteFile(filepath.Join(dir, "x.yaml"), nil, 0o644) }},
		{"a file's mode is changed", func() error { return os.Chmod(filepath.Join(dir, "x.yaml"), 0o600) }},
		{"..data is swapped", func() error { return os.Symlink("x", filepath.Join(dir, "..data")) }},
		{"the directory is removed", func() error { return os.RemoveAll(dir) }},
		{"the directory is made again", func() error { return os.Mkdir(dir, 0o755) }},
		{"a file is written in the new one", func() error { return os.WriteFile(filepath.Join(dir, "x.yaml"), nil, 0o644) }},
		{"the directory is renamed", func() error { return os.Rename(dir, dir+"2") }},
		{"the directory is back", func() error { return os.Rename(dir+"2", dir) }},
		{"a parent is removed", func() error { return os.RemoveAll(filepath.Dir(dir)) }},
		{"all is made again", func() error { return os.MkdirAll(dir, 0o755) }},
		{"a file is written in it", func() error { return os.WriteFile(filepath.Join(dir, "x.yaml"), nil, 0o644) }},
	} {
		calm(changed)
		do(t, c.do())
		await(t, changed, c.what)
	}
}

func TestWatchMounts(t *testing.T) {
	ring.RequireRoot(t)
	dir := t.TempDir()
	changed := watched(t, dir)
	do(t, unix.Mount("podrun-test", dir, "tmpfs", 0, "size=1m,mode=755"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	await(t, changed, "mounted over")
	calm(changed)
	write(t, filepath.Join(dir, "x.yaml"), "")
	await(t, changed, "a file in the mount")
	calm(changed)
	// The watch must not keep the mount busy.
	do(t, unix.Unmount(dir, 0))
	await(t, changed, "unmounted")
	calm(changed)
	write(t, filepath.Join(dir, "x.yaml"), "")
	await(t, changed, "a file below")
}

// Without inotify, only the relist finds changes. Watch reports this once, and reports again
// when inotify works.
func TestWatchWithoutInotify(t *testing.T) {
	var mu sync.Mutex
	var reports []string
	calls := 0
	f := &follower{dir: t.TempDir(), retry: 10 * time.Millisecond, events: make(chan struct{}, 1),
		report: func(p problem.Problem) { mu.Lock(); reports = append(reports, p.String()); mu.Unlock() },
		newWatcher: func() (*fsnotify.Watcher, error) {
			if calls++; calls < 4 {
				return nil, errors.New("no space left on device")
			}
			return fsnotify.NewWatcher()
		}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f.run(ctx) }()
	patience.Wait(t, patience.OnFake, "both reports", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(reports) == 2
	})
	cancel()
	<-ended
	if len(reports) != 2 || !strings.Contains(reports[0], "cannot be watched: no space left on device; podrun polls it for changes every 10ms") || !strings.Contains(reports[1], "is watched again") {
		t.Errorf("reported: %q", reports)
	}
}

// TestWatchStops checks that a watch ends with its context, so that stop does not wait until its time limit, and that
// stop can be called again.
func TestWatchStops(t *testing.T) {
	o := WatchOptions{Dirs: []string{t.TempDir(), "/nonexistent/x"}, Also: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	_, ended := watch(ctx, o)
	cancel()
	patience.Receive(t, "the end of the watch", ended)
	_, stop := Watch(t.Context(), o)
	stop()
	stop()
}

// TestDebounce lists the times of events and the times of the signals that follow.
func TestDebounce(t *testing.T) {
	const ms = time.Millisecond
	steady := make([]time.Duration, 300)
	for i := range steady {
		steady[i] = time.Duration(i) * 5 * ms
	}
	for name, c := range map[string]struct{ events, want []time.Duration }{
		"one":     {[]time.Duration{500 * ms}, []time.Duration{510 * ms}},
		"a burst": {[]time.Duration{500 * ms, 505 * ms, 512 * ms}, []time.Duration{522 * ms}},
		"apart":   {[]time.Duration{500 * ms, 530 * ms}, []time.Duration{510 * ms, 610 * ms}},
		"bounded": {steady, []time.Duration{1000 * ms, 1505 * ms}},
		"relist":  {nil, []time.Duration{20 * time.Second, 40 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				events, signals := make(chan struct{}, 1), make(chan struct{}, 1)
				begin := time.Now()
				go debounce(ctx, events, signals, defaultRelist)
				go func() {
					for _, at := range c.events {
						time.Sleep(time.Until(begin.Add(at)))
						events <- struct{}{}
					}
				}()
				var got []time.Duration
				for range c.want {
					<-signals
					got = append(got, time.Since(begin))
				}
				cancel()
				synctest.Wait()
				if !slices.Equal(got, c.want) {
					t.Errorf("signals at %v, want %v", got, c.want)
				}
			})
		})
	}
}
