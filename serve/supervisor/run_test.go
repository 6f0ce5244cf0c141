package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// readSources implements Sources with a function.
type readSources func(context.Context) (*source.Snapshot, *source.Desired, error)

func (r readSources) Read(ctx context.Context) (*source.Snapshot, *source.Desired, error) {
	return r(ctx)
}

// TestRunEndsAfterItsWorkers covers a Run that cannot list the pods on this host. It must stop
// its workers and wait for them before it releases the root directory to another supervisor.
func TestRunEndsAfterItsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := nodeconfig.Default()
		settings.RootDir = t.TempDir()
		rt := critest.ForTest(t)
		newNode := func() *node.Node { return &node.Node{Client: rt.Client(), Settings: settings} }
		objects, problems := manifest.Load([]input.Source{{Name: "web.yaml", Data: []byte(
			"{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: web, image: web}]}}")}}, manifest.Options{})
		if len(problems.Errors()) > 0 {
			t.Fatal(problems)
		}
		snapshot := &source.Snapshot{Dirs: []source.Dir{{Path: "/etc/podrun/manifests", State: source.Present,
			Files: []source.File{{Path: "/etc/podrun/manifests/web.yaml", State: source.Good, Objects: objects}}}}}

		acts, finish := make(chan struct{}), make(chan struct{})
		var s *Supervisor
		s = New(newNode(), Options{
			Starting: func(identity.Pod) { close(acts); <-finish },
			Sources: readSources(func(ctx context.Context) (*source.Snapshot, *source.Desired, error) {
				want := source.Merge(snapshot)
				s.take(ctx, snapshot, want)
				<-acts
				pods := s.current().Layout().PodsDir()
				if err := os.MkdirAll(filepath.Dir(pods), 0o750); err != nil {
					t.Error(err)
				}
				// The path of the pods directory is a file, so that scan fails.
				if err := os.WriteFile(pods, nil, 0o600); err != nil {
					t.Error(err)
				}
				return snapshot, want, nil
			}),
		})
		ended := make(chan error, 1)
		go func() { ended <- s.Run(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("Run returned while a worker was active: %v", err)
			ended <- err
		default:
		}
		if err := New(newNode(), Options{AllowKubelet: true}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another podrun serve") {
			t.Errorf("another supervisor started while a worker was active: %v", err)
		}
		close(finish)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "list the pods of") {
			t.Errorf("Run: %v, want the error of the list", err)
		}
	})
}

// TestLockWhileChecked checks that a supervisor starts although a command that checks for a supervisor is throttled
// while it holds the lock, and that a supervisor that is stopped while it waits for the lock returns no error.
func TestLockWhileChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Supervisor{node: &node.Node{Client: critest.ForTest(t).Client(), Settings: nodeconfig.Settings{RootDir: t.TempDir()}}}
		checked, err := store.TryLock(s.node.Layout().Serve().Lock(), "a command")
		if checked == nil || err != nil {
			t.Fatal(checked, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Errorf("a supervisor that is stopped while it waits: %v", err)
		}
		time.AfterFunc(300*time.Millisecond, checked.Unlock)
		lock, err := s.lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lock.Unlock()
	})
}

// TestRootLost checks that a supervisor ends if its root directory is removed, or if another directory has replaced it.
func TestRootLost(t *testing.T) {
	for name, lose := range map[string]func(root string) error{
		"removed": os.RemoveAll,
		"replaced": func(root string) error {
			return errors.Join(os.Rename(root, root+".moved"), os.Mkdir(root, 0o750))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				settings := nodeconfig.Default()
				settings.RootDir = filepath.Join(t.TempDir(), "root")
				ready := make(chan struct{})
				s := New(&node.Node{Client: critest.ForTest(t).Client(), Settings: settings}, Options{AllowKubelet: true, Ready: func() { close(ready) }})
				ended := make(chan error, 1)
				go func() { ended <- s.Run(t.Context()) }()
				<-ready
				synctest.Wait() // otherwise s could create files while the directory is removed
				if err := lose(settings.RootDir); err != nil {
					t.Fatal(err)
				}
				if e, ok := errors.AsType[*problem.Error](<-ended); !ok || e.Kind != problem.Runtime || !strings.Contains(e.Error(), "was removed, moved or unmounted") {
					t.Errorf("Run: %v", e)
				}
			})
		})
	}
}

// TestTakeReports checks that workers can use the supervisor while it prints warnings about the
// manifest directories, because the reader of stderr may have stopped reading.
func TestTakeReports(t *testing.T) {
	var s *Supervisor
	printed := 0
	n := &node.Node{Client: critest.ForTest(t).Client(), Settings: nodeconfig.Settings{RootDir: t.TempDir()}, Warn: func(problem.List) {
		printed++
		if !s.mu.TryLock() {
			t.Errorf("warning %d: the supervisor is locked", printed)
			return
		}
		s.mu.Unlock()
	}}
	s = New(n, Options{})
	snapshot := &source.Snapshot{News: problem.List{{Message: "a file is invalid", Warning: true}}}
	s.take(t.Context(), snapshot, &source.Desired{Problems: problem.List{{Message: "a pod is defined twice"}}})
	if printed != 2 {
		t.Errorf("%d warnings, want 2", printed)
	}
}
