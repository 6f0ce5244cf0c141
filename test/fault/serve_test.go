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

// converges is how long serve may take to make a pod what its file says once nothing
// goes wrong any more: back-offs are 10 s, and calls under way end by their limit.
const converges = 60 * time.Second

// endsWithin is how long serve may take to end by SIGTERM.
const endsWithin = 10 * time.Second

// serve runs `podrun serve` with the pod's file until the pod runs, removes the file
// until the pod is gone, and ends serve. The fault is cleared when the pod runs, or
// after the limit. A code of -1 says that one of it did not happen.
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
	// A pull has no limit by itself, as in the kubelet.
	c := h.process(ctx, []string{"PODRUN_RUNTIME_REQUEST_TIMEOUT=" + limit.String(), "PODRUN_PULL_TIMEOUT=" + limit.String()}, "serve", filepath.Dir(source))
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Start(); err != nil {
		return fail(err)
	}
	_ = until(ctx, limit, h.runs) // or the fault keeps it from that
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
	_ = c.Process.Signal(syscall.SIGTERM) // or it has ended
	_ = c.Wait()                          // how it ended is in its state
	r := result{code: c.ProcessState.ExitCode(), out: out.String(), err: stderr.String(), took: time.Since(begun)}
	if unmet != nil {
		r.code, r.err = -1, r.err+unmet.Error()
	}
	return r
}

// until repeats a check until it succeeds; the error is that of the last one.
func until(ctx context.Context, limit time.Duration, check func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		if err := check(); err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}
