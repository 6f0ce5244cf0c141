package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// command is one whose calls go wrong.
type command struct {
	name   string
	args   []string
	before string // the state of the pod: "" for none, running, exited, stopped
	// unbounded says that it has no --timeout: the limit of each call is what ends it.
	unbounded bool
	// holds checks what is so when it has succeeded.
	holds func(h *host, r result) error
	then  string // the manifest that the next apply gets
}

func runs(h *host, _ result) error    { return h.runs() }
func gone(h *host, _ result) error    { return h.gone() }
func stopped(h *host, _ result) error { return h.stopped() }

// hello checks what a command has printed.
func hello(_ *host, r result) error {
	if out := strings.TrimSpace(r.out); strings.TrimPrefix(out, "[job] ") != "hello" {
		return fmt.Errorf("it printed %q", r.out)
	}
	return nil
}

var commands = []command{
	{"apply", []string{"apply", "one.yaml"}, "", false, runs, "one.yaml"},
	{"re-apply", []string{"apply", "one.yaml"}, "exited", false, runs, "one.yaml"},
	{"run", []string{"run", "job.yaml"}, "", false, func(h *host, r result) error { return errors.Join(hello(h, r), h.gone()) }, "one.yaml"},
	{"restart", []string{"restart", "web"}, "running", false, runs, "one.yaml"},
	{"replace", []string{"apply", "two.yaml"}, "running", false, runs, "two.yaml"},
	{"delete", []string{"delete", "web"}, "running", false, gone, "one.yaml"},
	{"stop", []string{"stop", "web"}, "running", false, stopped, "one.yaml"},
	{"start", []string{"start", "web"}, "stopped", false, runs, "one.yaml"},
	{"exec", []string{"exec", "web", "--", "echo", "hello"}, "running", true, hello, "one.yaml"},
	{"logs -f", []string{"logs", "-f", "web"}, "running", true, hello, "one.yaml"},
}

// do runs the command. The container whose log is followed ends after a while.
func (c command) do(ctx context.Context, h *host, limit time.Duration) result {
	if c.unbounded {
		if c.name == "logs -f" {
			defer time.AfterFunc(500*time.Millisecond, func() { h.rt.Exit("app", 0) }).Stop() // it may have ended
		}
		return h.podrun(ctx, []string{"PODRUN_RUNTIME_REQUEST_TIMEOUT=" + limit.String()}, slices.Clone(c.args)...)
	}
	return h.podrun(ctx, nil, append(slices.Clone(c.args), "--timeout", limit.String())...)
}

// prepare brings the pod to the state before the command.
func (c command) prepare(ctx context.Context, h *host) error {
	if c.before == "" {
		return nil
	}
	if r := h.podrun(ctx, nil, "apply", "one.yaml"); r.code != 0 {
		return fmt.Errorf("prepare: apply: code %d: %s", r.code, r.err)
	}
	switch c.before {
	case "exited":
		return h.rt.Exit("app", 3)
	case "stopped":
		if r := h.podrun(ctx, nil, "stop", "web"); r.code != 0 {
			return fmt.Errorf("prepare: stop: code %d: %s", r.code, r.err)
		}
	}
	return nil
}
