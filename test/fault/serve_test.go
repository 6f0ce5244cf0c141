package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// converges is how long serve may take, after the fault has ended, to bring a pod into the state
// that its file defines. Back-offs last 10 s, and each active call ends at its time limit.
const converges = 60 * time.Second

// endsWithin is how long serve may take to exit after SIGTERM.
const endsWithin = 10 * time.Second

// serve runs `podrun serve` with the pod's file until the pod is running. It then removes the file,
// waits until the pod no longer exists, and terminates serve. It clears the fault when the pod is
// running, or when limit has expired. The exit code in the result is -1 if one of these steps
// failed.
func (h *host) serve(ctx context.Context, limit time.Duration, clear func()) result {
	defer clear()
	begun := time.Now()
	fail := func(err error) result { return result{code: -1, err: err.Error(), took: time.Since(begun)} }
	source := filepath.Join(h.dir, "manifests", "pod.yaml")
	err := os.MkdirAll(filepath.Dir(source), 0o755)
	if err == nil {
		err = os.WriteFile(source, []byte(manifests["one.yaml"]), 0o600)
	}
	if err != nil {
		return fail(err)
	}
	var out, stderr strings.Builder
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// As in the kubelet, pulls have no time limit by default.
	c := h.process(ctx, []string{"PODRUN_RUNTIME_REQUEST_TIMEOUT=" + limit.String(), "PODRUN_PULL_TIMEOUT=" + limit.String()}, "serve", filepath.Dir(source))
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Start(); err != nil {
		return fail(err)
	}
	// the fault may prevent the pod from running
	_ = until(ctx, limit, h.runs)
	clear()
	var unmet error
	if err := until(ctx, converges, h.runs); err != nil {
		unmet = fmt.Errorf("the pod does not run: %w", err)
	}
	if err := os.Remove(source); err != nil {
		unmet = errors.Join(unmet, err)
	}
	if err := until(ctx, converges, h.gone); err != nil && unmet == nil {
		unmet = fmt.Errorf("the pod is not removed: %w", err)
	}
	late := time.AfterFunc(endsWithin, cancel)
	defer late.Stop()
	// this has no effect if serve has already exited
	_ = c.Process.Signal(syscall.SIGTERM)
	// the state of the process contains the result
	_ = c.Wait()
	r := result{code: c.ProcessState.ExitCode(), out: out.String(), err: stderr.String(), took: time.Since(begun)}
	if unmet != nil {
		r.code, r.err = -1, r.err+unmet.Error()
	}
	return r
}

// until repeats a check until it succeeds, and returns the error of the last check.
func until(ctx context.Context, limit time.Duration, check func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		if err := check(); err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}
