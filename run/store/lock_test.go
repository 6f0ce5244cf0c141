package store

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

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// testLayout returns a layout in a temporary directory of the test.
func testLayout(t *testing.T) identity.Layout {
	t.Helper()
	dir := t.TempDir()
	return identity.Layout{RootDir: filepath.Join(dir, "root"), PodLogsDir: filepath.Join(dir, "logs"), ContainerLogsDir: filepath.Join(dir, "links")}
}

// testLocks returns Locks with a new holder name, as if they belonged to another podrun process.
func testLocks(layout identity.Layout) Locks {
	return NewLocks(layout, "process 1 (podrun test) ["+RandomHex(8)+"]", func(problem.List) {})
}

func TestLockExcludesAndReportsTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "locks", "default_web")
		first, err := Lock(t.Context(), path, "process 1 (podrun apply) [aa]", nil)
		if err != nil {
			t.Fatal(err)
		}
		var reported []string
		begun := time.Now()
		time.AfterFunc(3*time.Second, first.Unlock)
		second, err := Lock(t.Context(), path, "process 2 (podrun delete) [bb]", func(holder string) { reported = append(reported, holder) })
		if err != nil {
			t.Fatal(err)
		}
		defer second.Unlock()
		if took := time.Since(begun); took < 3*time.Second || took > 3*time.Second+SlowestLockPoll {
			t.Errorf("waited %s", took)
		}
		if len(reported) != 1 || reported[0] != "process 1 (podrun apply)" {
			t.Errorf("reported %q", reported)
		}
		if second.Before != "process 1 (podrun apply) [aa]" {
			t.Errorf("before: %q", second.Before)
		}
		if got := Holder(path); got != "process 2 (podrun delete) [bb]" {
			t.Errorf("holder %q", got)
		}
	})
}

func TestLockWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "lock")
		held, err := Lock(t.Context(), path, "process 1 (podrun apply) [aa]", nil)
		if err != nil {
			t.Fatal(err)
		}
		cause := errors.New("cause")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
		defer cancel()
		_, err = Lock(ctx, path, "process 2", nil)
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "wait for process 1 (podrun apply): cause") {
			t.Errorf("%v", err)
		}
		held.Unlock()
		after, err := Lock(t.Context(), path, "process 3", nil)
		if err != nil {
			t.Fatal(err)
		}
		after.Unlock()
	})
}

func TestPodLockReportsOtherHolders(t *testing.T) {
	layout := testLayout(t)
	id := identity.Pod{Namespace: "default", Name: "web"}
	mine, err := testLocks(layout).LockPod(t.Context(), id, PurposeRun)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name   string
		others int
		want   bool
	}{{"no process", 0, false}, {"another process", 1, true}, {"no process again", 0, false}, {"two processes", 2, true}} {
		mine.Unlock()
		for range step.others {
			other, err := testLocks(layout).LockPod(t.Context(), id, PurposeRun)
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
	mine.Unlock() // a second call has no effect
	free, err := LockFile(layout.Locks().Pod(id))
	if free == nil || err != nil {
		t.Fatalf("the lock is held: %v", err)
	}
	free.Close()
}

// TestLockOfKilledHolder checks that the kernel releases the lock of a killed process.
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
	if _, err := Lock(ended, path, "process 2", nil); err == nil {
		t.Fatal("the lock is held twice")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Wait returns the error that the process was killed.
	_ = child.Wait()
	l, err := Lock(ended, path, "process 2", nil)
	if err != nil {
		t.Fatalf("the lock of a dead process: %v", err)
	}
	if l.Before != "the child [cc]" {
		t.Errorf("before: %q", l.Before)
	}
	l.Unlock()
}

// TestHelperHoldLock is the process that TestLockOfKilledHolder kills. It does nothing if it runs as
// a normal test.
func TestHelperHoldLock(t *testing.T) {
	path := os.Getenv("PODRUN_TEST_HOLD")
	if path == "" {
		return
	}
	if _, err := Lock(t.Context(), path, "the child [cc]", nil); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("held\n")
	io.Copy(io.Discard, os.Stdin) // blocks until the parent exits
}

// TestUnlockWhileAProcessStarts checks that a lock is free after Unlock although another thread starts a process,
// which has a copy of the descriptor until it executes its program.
func TestUnlockWhileAProcessStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := TryLock(path, "a supervisor")
	if err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(int(held.File.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	held.Unlock()
	if again, err := TryLock(path, "a command"); again == nil || err != nil {
		t.Errorf("the lock is held after Unlock; error %v", err)
	}
}

// TestLockIsNoSymlink checks that a symlink in place of a lock does not redirect root's writes.
func TestLockIsNoSymlink(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if l, err := Lock(t.Context(), filepath.Join(dir, "lock"), "me", nil); err == nil {
		l.Unlock()
		t.Error("Lock followed a symlink")
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "precious" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestLockPodsHoldsNoneWhileItWaits checks that other commands can lock the other pods of a
// command, for example to preempt them, while the command waits for the lock of one of its pods.
func TestLockPodsHoldsNoneWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layout := testLayout(t)
		id := func(name string) identity.Pod { return identity.Pod{Namespace: "default", Name: name} }
		critical, err := testLocks(layout).LockPod(t.Context(), id("b"), PurposeRun)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan PodLocks)
		go func() {
			locks, err := testLocks(layout).LockPods(t.Context(), []identity.Pod{id("a"), id("b")})
			if err != nil {
				t.Error(err)
			}
			got <- locks
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		victim, err := testLocks(layout).LockPod(ctx, id("a"), PurposeRun)
		if err != nil {
			t.Fatal(err)
		}
		victim.Unlock()
		critical.Unlock()
		locks := <-got
		if locks["default/a"].Held == nil || locks["default/b"].Held == nil {
			t.Error("LockPods returned without both locks")
		}
		locks.Unlock()
	})
}
