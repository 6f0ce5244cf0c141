package rig

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// Must ends the test if a call has failed.
func (h *Host) Must(_ any, err error) {
	h.T.Helper()
	if err != nil {
		h.T.Fatal(err)
	}
}

// StopAndStart runs `podrun stop` and `podrun start` on all pods.
func (h *Host) StopAndStart() {
	h.T.Helper()
	for _, result := range run.StopPods(h.T.Context(), h.Engine(), h.Known(), run.DeleteOptions{}) {
		h.Must(nil, result.Err)
	}
	results, err := run.StartPods(h.T.Context(), h.Engine(), h.Known(), run.ApplyOptions{AllowKubelet: true})
	h.Must(nil, err)
	for _, result := range results {
		h.Must(nil, result.Err)
	}
}

// OnlyPod returns the only pod, as `get` in another process shows it.
func (h *Host) OnlyPod() *corev1.Pod {
	h.T.Helper()
	views, err := lookup.Pods(h.T.Context(), h.Engine(), lookup.Selector{})
	if err != nil || len(views) != 1 {
		h.T.Fatalf("%d pods, %v", len(views), err)
	}
	return views[0].Object
}

// Pod returns the pod as `get` shows it.
func (h *Host) Pod(name string) *corev1.Pod {
	h.T.Helper()
	views, err := lookup.Pods(h.T.Context(), h.Engine(), lookup.Selector{Namespace: "default", Names: []string{name}})
	if err != nil || len(views) != 1 {
		h.T.Fatalf("%d pods: %v", len(views), err)
	}
	return views[0].Object
}

// ApplyLater applies a pod as a separate process. It returns a function that interrupts the
// process, and a channel for the result.
func (h *Host) ApplyLater(text string, timeout time.Duration) (context.CancelCauseFunc, chan run.Result) {
	ctx, cancel := context.WithCancelCause(h.T.Context())
	h.T.Cleanup(func() { cancel(nil) })
	done := make(chan run.Result, 1)
	go func() { done <- h.ApplyWithin(ctx, text, timeout) }()
	return cancel, done
}

// Timeout is the timeout of operations.
const Timeout = 10 * time.Minute

// ApplyAll runs `podrun apply` as a separate process.
func (h *Host) ApplyAll(ctx context.Context, texts ...string) ([]run.Result, error) {
	h.T.Helper()
	return run.ApplyPods(ctx, h.Engine(), Load(h.T, texts...), run.ApplyOptions{Timeout: Timeout, AllowKubelet: true})
}

// Apply applies one pod, and returns its result.
func (h *Host) Apply(text string) run.Result {
	h.T.Helper()
	return h.ApplyWithin(h.T.Context(), text, Timeout)
}

// ApplyWithin applies one pod with a timeout. If podrun refuses the pod, ApplyWithin returns the
// refusal as a result.
func (h *Host) ApplyWithin(ctx context.Context, text string, timeout time.Duration) run.Result {
	h.T.Helper()
	results, err := run.ApplyPods(ctx, h.Engine(), Load(h.T, text), run.ApplyOptions{Timeout: timeout, AllowKubelet: true})
	if err != nil {
		return run.Result{Outcome: run.OutcomeFailed, Err: err}
	}
	return results[0]
}

// MustApply applies one pod and checks the outcome.
func (h *Host) MustApply(text string, want run.Outcome) run.Result {
	h.T.Helper()
	result := h.Apply(text)
	if result.Err != nil || result.Outcome != want {
		h.T.Fatalf("apply: %s, %v; want %s", result.Outcome, result.Err, want)
	}
	return result
}

// Delete runs `podrun delete` on the named pods, or on all pods if no names are given.
func (h *Host) Delete(o run.DeleteOptions, names ...string) []run.Result {
	h.T.Helper()
	results, err := run.DeletePods(h.T.Context(), h.Engine(), h.Known(names...), o)
	if err != nil {
		h.T.Fatal(err)
	}
	return results
}

// MustDelete deletes all pods and checks that nothing remains.
func (h *Host) MustDelete() {
	h.T.Helper()
	for _, result := range h.Delete(run.DeleteOptions{}) {
		if result.Err != nil {
			h.T.Errorf("delete %s: %v", result.ID, result.Err)
		}
	}
	h.NothingLeft()
}

// NoError checks the results of a command.
func (h *Host) NoError(results []run.Result, errs ...error) {
	h.T.Helper()
	if err := ErrorOf(results, errors.Join(errs...)); err != nil {
		h.T.Error(err)
	}
}

// Exit makes the newest container with this name exit.
func (h *Host) Exit(name string, code int32) {
	h.T.Helper()
	if err := h.Runtime.Exit(name, code); err != nil {
		h.T.Fatal(err)
	}
}

// Known lists the pods with the given names, or all pods if no names are given.
func (h *Host) Known(names ...string) []run.Known {
	h.T.Helper()
	known, err := lookup.Find(h.T.Context(), h.Engine(), lookup.Selector{Names: names})
	if err != nil {
		h.T.Fatal(err)
	}
	return known
}

// RunPods runs pods to completion, and returns the results of the pods.
func RunPods(ctx context.Context, e *run.Node, objects *manifest.Objects, o run.RunOptions) ([]run.Result, error) {
	report, err := run.Run(ctx, e, objects, o)
	return ResultsOf(report), err
}

// ResultsOf returns the results of a report's pods.
func ResultsOf(r run.Report) (out []run.Result) {
	for _, e := range r.Pods() {
		out = append(out, e.Result)
	}
	return out
}

// RestartPods recreates pods.
func RestartPods(ctx context.Context, e *run.Node, pods []run.Known, o run.ApplyOptions) ([]run.Result, error) {
	o.Force = true
	return run.StartPods(ctx, e, pods, o)
}

// ErrorOf returns the error of a command on one pod.
func ErrorOf(results []run.Result, err error) error {
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}
