package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podrun/podrun/cri/critest"
)

// command is a podrun command into whose calls the test injects faults.
type command struct {
	name string
	args []string
	// required state of the pod: "" if it must not exist; running, exited or stopped
	before string
	// unbounded means that the command has no --timeout: only the time limits of its calls end it.
	unbounded bool
	// holds checks the state after the command has succeeded.
	holds func(h *host, r result) error
	then  string // the manifest that the next apply uses
	// streams are the methods whose streams fail, in addition to the methods in calls (names as in
	// critest).
	streams []string
}

func runs(h *host, _ result) error    { return h.runs() }
func gone(h *host, _ result) error    { return h.gone() }
func stopped(h *host, _ result) error { return h.stopped() }

// hello checks the output of a command.
func hello(_ *host, r result) error {
	if out := strings.TrimSpace(r.out); strings.TrimPrefix(out, "[job] ") != "hello" {
		return fmt.Errorf("the command printed %q", r.out)
	}
	return nil
}

// ended checks that the container whose output a command followed has exited.
func ended(h *host, _ result) error {
	if h.runsContainer("app") {
		return errors.New("the command exited while the container was running")
	}
	return nil
}

var commands = []command{
	{"apply", []string{"apply", "one.yaml"}, "", false, runs, "one.yaml", nil},
	{"re-apply", []string{"apply", "one.yaml"}, "exited", false, runs, "one.yaml", nil},
	{"run", []string{"run", "job.yaml"}, "", false, func(h *host, r result) error { return errors.Join(hello(h, r), h.gone()) }, "one.yaml", nil},
	{"restart", []string{"restart", "web"}, "running", false, runs, "one.yaml", nil},
	{"replace", []string{"apply", "two.yaml"}, "running", false, runs, "two.yaml", nil},
	{"delete", []string{"delete", "web"}, "running", false, gone, "one.yaml", nil},
	{"stop", []string{"stop", "web"}, "running", false, stopped, "one.yaml", nil},
	{"start", []string{"start", "web"}, "stopped", false, runs, "one.yaml", nil},
	{"exec", []string{"exec", "web", "-c", "app", "--", "echo", "hello"}, "running", true, hello, "one.yaml", []string{"ExecStream"}},
	{"logs -f", []string{"logs", "-f", "web", "-c", "app"}, "running", true, hello, "one.yaml", nil},
	{"attach", []string{"attach", "web", "-c", "app"}, "running", true, ended, "one.yaml", []string{"AttachStream"}},
	{"serve", []string{"serve"}, "", true, gone, "one.yaml", []string{"GetContainerEvents"}},
}

// do runs the command. If the command follows a container's log or attaches to the container,
// the container exits after a while. The function clear ends the fault.
func (c command) do(ctx context.Context, h *host, limit time.Duration, clear func()) result {
	if c.name == "serve" {
		return h.serve(ctx, limit, clear)
	}
	defer clear()
	if c.unbounded {
		switch c.name {
		case "logs -f":
			// the container may have already exited
			defer time.AfterFunc(500*time.Millisecond, func() { h.rt.Exit("app", 0) }).Stop()
		case "attach":
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go h.exitAttached(ctx)
		}
		return h.podrun(ctx, []string{"PODRUN_RUNTIME_REQUEST_TIMEOUT=" + limit.String()}, slices.Clone(c.args)...)
	}
	return h.podrun(ctx, nil, append(slices.Clone(c.args), "--timeout", limit.String())...)
}

// exitAttached makes the container exit some time after the call of Attach, because the client
// opens the streams after that call.
func (h *host) exitAttached(ctx context.Context) {
	asked := func() bool {
		return slices.ContainsFunc(h.rt.Calls(), func(c critest.Call) bool { return c.Method == "Attach" })
	}
	for !asked() && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	select {
	case <-time.After(3 * time.Second):
		// the container may have already exited
		_ = h.rt.Exit("app", 0)
	case <-ctx.Done():
	}
}

// prepare brings the pod into the state that the command requires.
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
