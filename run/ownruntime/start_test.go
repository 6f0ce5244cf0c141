package ownruntime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// startingRuntime returns the runtime of a root directory whose containerd never answers, and a function
// that returns the notes to the user.
func startingRuntime(t *testing.T) (*Runtime, func() string) {
	t.Helper()
	ring.RequireRoot(t) // only root starts the embedded runtime
	var notes []string
	s := nodeconfig.Default()
	s.RootDir = filepath.Join(t.TempDir(), "root")
	r := New(s, Options{Command: "podrun get", Warn: func(problem.List) {}, Note: func(n string) { notes = append(notes, n) }})
	r.layout.RunDir = t.TempDir()
	digest := strings.Repeat("0", 64)
	for _, dir := range []string{r.layout.State(), r.layout.Containerd()} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if err := embedded.WriteChoice(r.layout, embedded.Choice{Kind: embedded.Own, Digest: digest}); err != nil {
		t.Fatal(err)
	}
	process := exec.Command("sleep", "3600")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	// Its start would count as progress.
	patience.Wait(t, patience.OnFake, "the process sleeps", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process.Process.Pid))
		return err == nil && strings.Contains(string(stat), " (sleep) S ")
	})
	d, err := embedded.Identify(t.Context(), process.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	d.SchemaVersion, d.Digest, d.Starting = 1, digest, true
	writeJSON(t, r.layout.Daemon(), d)
	return r, func() string { return strings.Join(notes, "\n") }
}

// TestStartThatDoesNotEnd checks the waits of commands for a containerd that does not finish its start:
// the time limit of the command ends them, or, without a limit, a containerd without progress. The
// command does not end containerd.
func TestStartThatDoesNotEnd(t *testing.T) {
	holder := func(t *testing.T, r *Runtime) {
		lock, err := store.Lock(t.Context(), r.layout.Lock(), "podrun apply", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(lock.Unlock)
	}
	for name, c := range map[string]struct {
		limit time.Duration
		queue bool // another podrun process waits for containerd
		use   Use
		after time.Duration
		kind  problem.Kind
		texts []string
	}{
		"limit":           {limit: 5 * time.Second, use: Starts, after: 5 * time.Second, kind: problem.Deadline, texts: []string{"timed out after 5s", "does not answer yet"}},
		"limit, reads":    {limit: 5 * time.Second, use: Reads, after: 5 * time.Second, kind: problem.Deadline, texts: []string{"timed out after 5s"}},
		"limit, queue":    {limit: 5 * time.Second, queue: true, use: Starts, after: 5 * time.Second, kind: problem.Deadline, texts: []string{"timed out after 5s", "podrun apply"}},
		"no limit":        {use: Starts, after: time.Minute, kind: problem.Runtime, texts: []string{"has made no progress for 1m0s"}},
		"no limit, queue": {queue: true, use: Reads, after: time.Minute, kind: problem.Runtime, texts: []string{"has made no progress for 1m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, notes := startingRuntime(t)
			if c.queue {
				holder(t, r)
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := wait.WithTimeout(t.Context(), c.limit)
				defer cancel()
				begun := time.Now()
				_, err := r.Open(ctx, c.use)
				if took := time.Since(begun); took < c.after || took > c.after+5*time.Second {
					t.Errorf("waited for %s, want %s", took, c.after)
				}
				e, ok := errors.AsType[*problem.Error](err)
				if !ok || e.Kind != c.kind {
					t.Fatalf("error %v, want one of kind %s", err, c.kind)
				}
				for _, text := range c.texts {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%q does not contain %q", err, text)
					}
				}
				if !strings.Contains(notes(), "waiting for the embedded runtime: containerd (process ") {
					t.Errorf("notes %q", notes())
				}
				if d := embedded.ReadDaemon(context.WithoutCancel(ctx), r.layout); !d.Alive() {
					t.Error("the command ended containerd")
				}
			})
		})
	}
}

// TestStalledStartOfOwner checks that a command that owns the runtime, such as `podrun serve`, ends a
// containerd that makes no progress, so that its next attempt starts another one.
func TestStalledStartOfOwner(t *testing.T) {
	r, _ := startingRuntime(t)
	r.Replaces = true
	synctest.Test(t, func(t *testing.T) {
		_, err := r.Open(t.Context(), Starts)
		if err == nil || !strings.Contains(err.Error(), "has made no progress") {
			t.Fatalf("error %v", err)
		}
		if d := embedded.ReadDaemon(t.Context(), r.layout); d.Alive() {
			t.Error("the stalled containerd is still running")
		}
		if condition, _ := r.Condition(t.Context()); !strings.Contains(condition, "does not answer yet") {
			t.Errorf("condition %q", condition)
		}
	})
}

// TestStartingRuntimeIsReported checks what commands that start nothing report.
func TestStartingRuntimeIsReported(t *testing.T) {
	r, _ := startingRuntime(t)
	if _, err := r.Open(t.Context(), Looks); err == nil || !strings.Contains(err.Error(), "is starting and does not answer yet") {
		t.Errorf("error %v", err)
	}
	s, err := r.Status(t.Context())
	if err != nil || s.State != "starting" || !strings.Contains(s.Problem, "does not answer yet") {
		t.Errorf("state %q, problem %q, %v", s.State, s.Problem, err)
	}
	if e := r.Embedded(t.Context()); !strings.Contains(e.Fix, "podrun runtime up") {
		t.Errorf("fix %q", e.Fix)
	}
	if data, err := hostfile.Read(t.Context(), r.layout.Daemon(), 1<<20); err != nil || !strings.Contains(string(data), `"starting":true`) {
		t.Errorf("%s, %v", data, err)
	}
}
