package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// interrupted returns a context that has ended, and its cause.
func interrupted(t *testing.T) (context.Context, error) {
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	return ctx, why
}

// TestRemoveWaitsForTheLockUntilInterrupted covers another podrun process that keeps the shared
// cgroups locked. An interrupted Remove once waited for 30 s, and held the node's lock during this
// time.
func TestRemoveWaitsForTheLockUntilInterrupted(t *testing.T) {
	p := lockPlan(t)
	unlock, err := p.lockShared(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.Shared = []Group{{Name: []string{"kubepods"}, Path: "/kubepods"}}
	ctx, why := interrupted(t)
	if err := Remove(ctx, p); !errors.Is(err, why) {
		t.Errorf("while the lock is held: %v", err)
	}
	unlock()
	// Remove does not have to wait.
	if err := Remove(ctx, p); err != nil {
		t.Errorf("when the lock is free: %v", err)
	}
}

// TestRemoveOfProcessesIsInterrupted checks that the error of a removal that is interrupted while
// it kills processes wraps the cause.
func TestRemoveOfProcessesIsInterrupted(t *testing.T) {
	facts, s := live(t)
	p, cmd := appliedWithProcess(t, facts, s)
	dir := p.hierarchies().dirs(p.Pods[0])[0]
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(fmt.Sprint(cmd.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	ctx, why := interrupted(t)
	if err := Remove(ctx, p); !errors.Is(err, why) {
		t.Errorf("%v, want the cause", err)
	}
	_ = cmd.Wait() // the process was killed
	if err := Remove(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if left := remains(t, p); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
