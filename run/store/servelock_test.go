package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podrun/podrun/internal/identity"
)

// TestServeLockIsRemoved checks that a second supervisor does not start, and that Supervised
// reports the first one, even if the lock file or its directory was removed.
func TestServeLockIsRemoved(t *testing.T) {
	for _, removed := range []func(identity.ServeDir) string{identity.ServeDir.Lock, func(d identity.ServeDir) string { return string(d) }} {
		layout := testLayout(t)
		path := removed(layout.Serve())
		lock, err := TryServeLock(layout, "the first")
		if lock == nil || err != nil {
			t.Fatal(lock, err)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if second, err := TryServeLock(layout, "the second"); second != nil || err != nil {
			t.Errorf("without %s: %v, %v", path, second, err)
		}
		if !Supervised(layout) {
			t.Errorf("without %s: not supervised", path)
		}
		lock.Unlock()
		if Supervised(layout) {
			t.Error("supervised after the supervisor has exited")
		}
		if lock, err = TryServeLock(layout, "the third"); lock == nil || err != nil {
			t.Fatal(lock, err)
		}
		lock.Unlock()
	}
}

// TestTemporaryFilesOfAKilledServe checks that the next supervisor removes temporary files of a
// killed supervisor. A garbage collection removes the temporary files of all killed processes when
// the files are so old that no process can still be writing them.
func TestTemporaryFilesOfAKilledServe(t *testing.T) {
	layout := testLayout(t)
	pod, checkpoint := secretPod(false, "s")
	if err := os.MkdirAll(string(layout.Pod(pod.UID)), 0o750); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, layout, pod, checkpoint)
	probes := filepath.Join(layout.Pod(pod.UID).Plugins(), "podrun.dev~probes")
	for _, c := range []struct {
		name string
		age  time.Duration
		// whether the file exists after the start of a supervisor, and after the collection
		serve, sweep bool
	}{
		{name: filepath.Join(layout.Serve().Sources(), ".default_web.1066594613")},
		{name: filepath.Join(string(layout.Serve()), ".unstarted.3966333247")},
		{name: filepath.Join(layout.Serve().RemoteCopies(), ".0a1b.3966333247")},
		{name: filepath.Join(string(layout.Pod(pod.UID)), ".pod.yaml.3966333247"), age: time.Hour, serve: true},
		{name: filepath.Join(probes, ".results.json.3966333247"), age: time.Hour, serve: true},
		{name: filepath.Join(layout.ImageBackOff(), ".u.json.3966333247"), age: time.Hour, serve: true},
		{name: filepath.Join(layout.ImageRecords(), "pulled", ".sha256-0.3966333247"), age: time.Hour, serve: true},
		{name: filepath.Join(layout.ImageRecords(), "pulling", ".sha256-0.3966333247"), age: time.Hour, serve: true},
		{name: filepath.Join(layout.RootDir, "runtime", ".choice.json.3966333247"), age: time.Hour, serve: true},
		{name: filepath.Join(string(layout.Services()), ".names.json.3966333247"), age: time.Hour, serve: true},
		{name: filepath.Join(layout.Workloads(), ".default_web.3966333247"), age: time.Hour, serve: true},
		{name: filepath.Join(layout.Jobs(), ".default_web.3966333247"), age: time.Hour, serve: true},
		{name: filepath.Join(layout.CronJobs(), ".default_web.3966333247"), age: time.Hour, serve: true},
		// A process may be writing this file.
		{name: filepath.Join(probes, ".results.json.3966333248"), serve: true, sweep: true},
		{name: filepath.Join(probes, "results.json"), age: time.Hour, serve: true, sweep: true},
		{name: filepath.Join(layout.Serve().Sources(), "default_web.5"), age: time.Hour, serve: true, sweep: true},
		{name: filepath.Join(string(layout.Serve()), ".hidden"), age: time.Hour, serve: true, sweep: true},
		{name: filepath.Join(string(layout.Serve()), ".5"), age: time.Hour, serve: true, sweep: true},
	} {
		at := time.Now().Add(-c.age)
		err := os.MkdirAll(filepath.Dir(c.name), 0o750)
		if err == nil {
			err = os.WriteFile(c.name, nil, 0o600)
		}
		if err == nil {
			err = os.Chtimes(c.name, at, at)
		}
		if err != nil {
			t.Fatal(err)
		}
		lock, err := TryServeLock(layout, "test")
		if lock == nil || err != nil {
			t.Fatal(lock, err)
		}
		lock.Unlock()
		if _, err := os.Lstat(c.name); (err == nil) != c.serve {
			t.Errorf("after the start of a supervisor: %s: %v, want it kept: %v", c.name, err, c.serve)
		}
		if err := SweepTemporaries(layout); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(c.name); (err == nil) != c.sweep {
			t.Errorf("after the collection: %s: %v, want it kept: %v", c.name, err, c.sweep)
		}
	}
	if c, err := ViewCheckpoint(layout, pod.UID); err != nil || c == nil {
		t.Errorf("the checkpoint: %v, %v", c, err)
	}
}
