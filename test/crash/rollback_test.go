package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rollback is the command `serve` with a bad update, which serve rolls back. The sweep kills it only at steps that write
// records, and stop, remove or start the pod.
const rollback = "serve-rollback"

// TestCrashSweepOfRollback kills serve while it updates a pod, and while it rolls the update back. The sample is one step
// in 10.
func TestCrashSweepOfRollback(t *testing.T) {
	sweepCommands(t, "crash sweep of a rollback", 10, rollback)
}

// rollbackManifests writes the file of a pod with a progress deadline, and one with a bad update: its postStart hook fails.
func (h *host) rollbackManifests() (good string, err error) {
	file, err := h.manifest("one", false)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.Replace(string(data), "namespace: crash}", "namespace: crash, annotations: {podrun.dev/progress-deadline: 1m}}", 1)
	bad := strings.Replace(text, "    volumeMounts:", "    lifecycle: {postStart: {exec: {command: [sh, -c, exit 3]}}}\n    volumeMounts:", 1)
	if text == string(data) || bad == text {
		return "", errors.New("the manifest has another form")
	}
	if err := os.WriteFile(h.badFile(), []byte(bad), 0o600); err != nil {
		return "", err
	}
	return file, os.WriteFile(file, []byte(text), 0o600)
}

func (h *host) badFile() string { return filepath.Join(h.dir, "bad.yaml") }

// updateState returns the state of the pod's update.
func (h *host) updateState() string {
	data, err := os.ReadFile(filepath.Join(h.dir, "root", "updates", "crash_"+h.pod))
	_, rest, ok := strings.Cut(string(data), `"state":"`)
	if err != nil || !ok {
		return ""
	}
	state, _, _ := strings.Cut(rest, `"`)
	return state
}

func (h *host) inUpdateState(want string) error {
	if state := h.updateState(); state != want {
		return fmt.Errorf("the update is %q", state)
	}
	return nil
}

// rollBack makes a bad update of the pod, and waits until it is rolled back, or until serve was killed.
func (o *outside) rollBack(ctx context.Context, h *host) {
	if until(ctx, func() error { return h.inUpdateState("Good") }) == nil && os.Rename(h.badFile(), h.source()) == nil {
		_ = until(ctx, func() error { return h.inUpdateState("RolledBack") })
	}
}

// rolledBack checks that the pod runs with the good definition. If its file has the bad one, the update must have been
// rolled back.
func (o *outside) rolledBack(ctx context.Context, h *host) error {
	text, err := os.ReadFile(h.source())
	if err == nil && strings.Contains(string(text), "postStart") {
		err = h.inUpdateState("RolledBack")
	}
	if err == nil {
		err = o.runs(ctx, h.pod)
	}
	if err == nil {
		if hook := h.podrun(nil, "get", "pod", h.pod, "-o", "jsonpath={.spec.containers[0].lifecycle}").out; strings.TrimSpace(hook) != "" {
			err = fmt.Errorf("the pod has the bad definition: %s", hook)
		}
	}
	return err
}
