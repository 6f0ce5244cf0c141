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
	line string // the arguments
	// required state of the pod: "" if it must not exist; running, exited or stopped
	before string
	// unbounded means that the command has no --timeout: only the time limits of its calls end it.
	unbounded bool
	// code is the exit code of the command if no call fails.
	code int
	// holds checks the state after the command has exited with code.
	holds func(h *host, r result) error
	then  string // the manifest that the next apply uses; "" is one.yaml
	// streams are the methods whose streams fail, in addition to the methods in calls (names as in
	// critest).
	streams []string
	// rollsBack means that the command restores the earlier definition if its update fails. Calls fail for less time than
	// podrun tries this, so that it must succeed.
	rollsBack bool
	// late means that calls fail only when the update has failed, while podrun restores the earlier definition.
	late bool
	// life is what happens while serve runs; nil for other commands.
	life func(*served) error
}

func runs(h *host, _ result) error    { return h.runs() }
func gone(h *host, _ result) error    { return h.gone() }
func stopped(h *host, _ result) error { return h.stopped() }

func updated(h *host, _ result) error { return h.runsImage("far:2") }

// restored checks that the earlier definition of the pod runs. A hook of it that fails is not repeated, and reported.
func restored(h *host, r result) error {
	if strings.Contains(r.err, "restore its earlier definition: ") && strings.Contains(r.err, "postStart hook") {
		return nil
	}
	return h.runsImage("far:1")
}

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
	{name: "apply", line: "apply one.yaml", holds: runs},
	{name: "re-apply", line: "apply one.yaml", before: "exited", holds: runs},
	{name: "run", line: "run job.yaml", holds: func(h *host, r result) error { return errors.Join(hello(h, r), h.gone()) }},
	{name: "restart", line: "restart web", before: "running", holds: runs},
	{name: "replace", line: "apply two.yaml", before: "running", holds: runs, then: "two.yaml"},
	{name: "update", line: "apply --wait=ready --rollback two.yaml", before: "running", holds: updated, rollsBack: true},
	{name: "rollback", line: "apply --wait=ready --rollback bad.yaml", before: "running", code: 1, holds: restored, rollsBack: true, late: true},
	{name: "delete", line: "delete web", before: "running", holds: gone},
	{name: "stop", line: "stop web", before: "running", holds: stopped},
	{name: "start", line: "start web", before: "stopped", holds: runs},
	{name: "exec", line: "exec web -c app -- echo hello", before: "running", unbounded: true, holds: hello, streams: []string{"ExecStream"}},
	{name: "logs -f", line: "logs -f web -c app", before: "running", unbounded: true, holds: hello},
	{name: "attach", line: "attach web -c app", before: "running", unbounded: true, holds: ended, streams: []string{"AttachStream"}},
	{name: "serve", line: "serve manifests", unbounded: true, holds: gone, streams: []string{"GetContainerEvents"}, life: startAndRemove},
	{name: "serve rollback", line: "serve manifests", unbounded: true, holds: gone, late: true, life: rollBack},
	{name: "serve signed", line: "serve manifests --source-verify allowed_signers", unbounded: true, holds: gone, life: updateSigned},
}

// do runs the command. If the command follows a container's log or attaches to the container,
// the container exits after a while.
func (c command) do(ctx context.Context, h *host, limit time.Duration, f *outage) result {
	if c.life != nil {
		return h.serve(ctx, c, limit, f)
	}
	defer f.end()
	if c.late {
		h.onBadHook = f.begin
	} else {
		f.begin()
	}
	switch {
	case c.late:
		return h.podrun(ctx, requestTimeout(max(limit, leastLimit)), append(strings.Fields(c.line), "--timeout", slowLimit.String())...)
	case c.rollsBack:
		return h.podrun(ctx, requestTimeout(max(limit, leastLimit)), append(strings.Fields(c.line), "--timeout", limit.String())...)
	case c.unbounded:
		switch c.name {
		case "logs -f":
			// the container may have already exited
			defer time.AfterFunc(500*time.Millisecond, func() { h.rt.Exit("app", 0) }).Stop()
		case "attach":
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go h.exitAttached(ctx)
		}
		return h.podrun(ctx, requestTimeout(limit), strings.Fields(c.line)...)
	}
	return h.podrun(ctx, nil, append(strings.Fields(c.line), "--timeout", limit.String())...)
}

func requestTimeout(limit time.Duration) []string {
	return []string{"PODRUN_RUNTIME_REQUEST_TIMEOUT=" + limit.String()}
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
