package run

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/run/node"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/store"
)

func TestLockExcludesAndTellsForWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "locks", "default_web")
		first, err := store.Lock(t.Context(), path, "process 1 (podrun apply) [aa]", nil)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		begun := time.Now()
		time.AfterFunc(3*time.Second, first.Unlock)
		second, err := store.Lock(t.Context(), path, "process 2 (podrun delete) [bb]", func(holder string) { said = append(said, holder) })
		if err != nil {
			t.Fatal(err)
		}
		defer second.Unlock()
		if took := time.Since(begun); took < 3*time.Second || took > 3*time.Second+store.SlowestLockPoll {
			t.Errorf("waited %s", took)
		}
		if len(said) != 1 || said[0] != "process 1 (podrun apply)" {
			t.Errorf("said %q", said)
		}
		if second.Before != "process 1 (podrun apply) [aa]" {
			t.Errorf("before: %q", second.Before)
		}
		if got := store.Holder(path); got != "process 2 (podrun delete) [bb]" {
			t.Errorf("holder %q", got)
		}
	})
}

func TestLockWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "lock")
		held, err := store.Lock(t.Context(), path, "process 1 (podrun apply) [aa]", nil)
		if err != nil {
			t.Fatal(err)
		}
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
		defer cancel()
		_, err = store.Lock(ctx, path, "process 2", nil)
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "wait for process 1 (podrun apply): enough") {
			t.Errorf("%v", err)
		}
		held.Unlock()
		after, err := store.Lock(t.Context(), path, "process 3", nil)
		if err != nil {
			t.Fatal(err)
		}
		after.Unlock()
	})
}

// TestLockTimeoutHasItsKind: waiting for another podrun until --timeout is over
// is a deadline, exit code 124, for apply and delete alike.
func TestLockTimeoutHasItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		text := podText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")
		r.mustApply(text, OutcomeCreated)
		e := r.engine()
		for _, path := range []string{r.layout().PodLock(identity.Pod{Namespace: "default", Name: "web"}), r.layout().NodeLock()} {
			held, err := store.Lock(t.Context(), path, "process 1 (podrun apply) [aa]", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = e.Apply(t.Context(), load(t, text), ApplyOptions{Timeout: time.Minute, AllowKubelet: true})
			wantErr(t, err, problem.Deadline, "process 1 (podrun apply)", "timed out after 1m0s")
			known, err := e.Find(t.Context(), Selector{})
			if err != nil {
				t.Fatal(err)
			}
			results, err := e.Delete(t.Context(), known, DeleteOptions{Timeout: time.Minute})
			if err == nil {
				err = results[0].Err
			}
			wantErr(t, err, problem.Deadline, "process 1 (podrun apply)", "timed out after 1m0s")
			held.Unlock()
		}
		r.mustDelete()
	})
}

func TestPodLockKnowsOfOthers(t *testing.T) {
	r := &rig{t: t, settings: testSettings(t.TempDir())}
	id := identity.Pod{Namespace: "default", Name: "web"}
	mine, err := r.lockOf(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name   string
		others int
		want   bool
	}{{"nobody", 0, false}, {"another", 1, true}, {"nobody again", 0, false}, {"two others", 2, true}} {
		mine.Unlock()
		for range step.others {
			other, err := r.lockOf(id)
			if err != nil {
				t.Fatal(err)
			}
			other.Unlock()
		}
		changed, err := mine.Take(t.Context())
		if err != nil || changed != step.want {
			t.Errorf("%s: %v, %v", step.name, changed, err)
		}
	}
	mine.Unlock()
	mine.Unlock() // twice is fine
	r.noLockHeld()
}

// lockOf takes a pod's lock as a process of its own.
func (r *rig) lockOf(id identity.Pod) (*store.PodLock, error) {
	e := &Engine{Node: node.Node{Settings: r.settings, Invocation: NewInvocation(), Command: "podrun test"}}
	return e.Locks().LockPod(r.t.Context(), id, store.PurposeRun)
}

// TestLockOfKilledHolder kills the process that holds a lock.
func TestLockOfKilledHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	child := exec.Command(os.Args[0], "-test.run=^TestHelperHoldLock$")
	child.Env = append(os.Environ(), "PODRUN_TEST_HOLD="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := store.Lock(ended, path, "process 2", nil); err == nil {
		t.Fatal("two hold the lock")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // says that it was killed
	l, err := store.Lock(ended, path, "process 2", nil)
	if err != nil {
		t.Fatalf("the lock of a dead process: %v", err)
	}
	if l.Before != "the child [cc]" {
		t.Errorf("before: %q", l.Before)
	}
	l.Unlock()
}

// TestHelperHoldLock is the process that TestLockOfKilledHolder kills; run by
// itself it has nothing to test.
func TestHelperHoldLock(t *testing.T) {
	path := os.Getenv("PODRUN_TEST_HOLD")
	if path == "" {
		return
	}
	if _, err := store.Lock(t.Context(), path, "the child [cc]", nil); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("held\n")
	io.Copy(io.Discard, os.Stdin) // until the parent goes
}

// TestLockIsNoSymlink: the locks are root's, and a planted link must not make
// root write elsewhere.
func TestLockIsNoSymlink(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if l, err := store.Lock(t.Context(), filepath.Join(dir, "lock"), "me", nil); err == nil {
		l.Unlock()
		t.Error("it followed a symlink")
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "precious" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestLockPodsHoldsNoneWhileItWaits: a command that waits for one of its pods
// leaves the others to who needs them, such as a critical pod that the waiting
// one waits for.
func TestLockPodsHoldsNoneWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := func(name string) identity.Pod { return identity.Pod{Namespace: "default", Name: name} }
		critical, err := r.engine().Locks().LockPod(t.Context(), id("b"), store.PurposeRun)
		if err != nil {
			t.Fatal(err)
		}
		both := load(t, podText("a", "Always", "containers: [{name: app, image: registry.example/app:1}]"),
			podText("b", "Always", "containers: [{name: app, image: registry.example/app:1}]"))
		got := make(chan store.PodLocks)
		go func() {
			locks, err := r.engine().LockPods(t.Context(), both)
			if err != nil {
				t.Error(err)
			}
			got <- locks
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		victim, err := r.engine().Locks().LockPod(ctx, id("a"), store.PurposeRun)
		if err != nil {
			t.Fatal(err)
		}
		victim.Unlock()
		critical.Unlock()
		locks := <-got
		if locks["default/a"].Held == nil || locks["default/b"].Held == nil {
			t.Error("it has not both of its locks")
		}
		locks.Unlock()
	})
}
