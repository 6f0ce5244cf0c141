package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/run/lifecycle"
)

// RestartedFile contains the IDs of the containers that podrun stopped when it last restarted all containers
// of a pod.
var RestartedFile = statefile.Declare(statefile.Kind[[]string]{
	What: "the record of containers that were restarted together", Files: "pods/<uid>/plugins/podrun.dev~restart-all/ended", Scope: statefile.OfPod,
	On:    statefile.Answers{Absent: "no such restart", Corrupt: statefile.Report, Unreadable: statefile.Report, Newer: statefile.Ignore},
	Paths: statefile.EachPod(identity.PodDir.Restarted), Mode: 0o640, DirMode: 0o750,
})

// PendingRestartsFile contains the pending restarts of a pod's containers, by name.
var PendingRestartsFile = statefile.Declare(statefile.Kind[map[string]lifecycle.PendingRestart]{
	What: "the record of containers that are being restarted", Files: "pods/<uid>/plugins/podrun.dev~restarts/pending.json", Scope: statefile.OfPod,
	On:    statefile.Answers{Absent: "no pending restart", Corrupt: statefile.Report, Unreadable: statefile.Report, Newer: statefile.Ignore},
	Paths: statefile.EachPod(identity.PodDir.PendingRestarts), Mode: 0o640, DirMode: 0o750,
})

// HookFile is the state of a container's postStart hook. If podrun cannot use it, the hook runs again, because
// running it twice is better than never running it.
var HookFile = statefile.Declare(statefile.Kind[lifecycle.HookState]{
	What: "the state of a postStart hook", Files: "pods/<uid>/plugins/podrun.dev~hooks/<container id>", Scope: statefile.OfPod,
	On:    statefile.Answers{Absent: "the hook has not begun", Corrupt: hookRunsAgain, Unreadable: hookRunsAgain, Newer: hookRunsAgain},
	Paths: hookFiles, Mode: 0o640,
	Encode: func(s lifecycle.HookState) ([]byte, error) { return []byte(s), nil },
	Decode: func(data []byte) (lifecycle.HookState, error) {
		s := lifecycle.HookState(data)
		if s != lifecycle.HookPending && s != lifecycle.HookDone && s != lifecycle.HookFailed {
			return "", fmt.Errorf("the state is not one of %s, %s and %s", lifecycle.HookPending, lifecycle.HookDone, lifecycle.HookFailed)
		}
		return s, nil
	},
})

// hookRunsAgain is the answer of HookFile.
const hookRunsAgain statefile.Action = "counts as Pending, with a warning: the hook runs again"

// hookFiles returns the files of all pods' hooks.
func hookFiles(l identity.Layout) (out []string) {
	for _, dir := range statefile.EachPod(identity.PodDir.HookMarks)(l) {
		entries, _ := os.ReadDir(dir) // observe.ReadPod reports the error
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") { // being written
				out = append(out, filepath.Join(dir, e.Name()))
			}
		}
	}
	return out
}

// StopMark records that a pod was stopped and will not run until a command starts it.
type StopMark struct {
	// Why and Hint are for the error of a command that waits for the pod.
	Why, Hint string
	// Interrupted is true if the pod had not ended when a command stopped it.
	Interrupted bool
}

// interrupted is the third line of the mark if the stop interrupted the pod.
const interrupted = "interrupted"

// StopMarkFile is the mark of a pod. The file's existence is the mark: if podrun cannot use the content, the
// pod remains stopped.
var StopMarkFile = statefile.Declare(statefile.Kind[StopMark]{
	What: "the record that the pod was stopped", Files: "pods/<uid>/stopped", Scope: statefile.OfPod,
	On:    statefile.Answers{Absent: "the pod was not stopped", Corrupt: remainsStopped, Unreadable: remainsStopped, Newer: statefile.Partial},
	Paths: statefile.EachPod(identity.PodDir.StoppedMark), Mode: 0o600,
	Encode: func(m StopMark) ([]byte, error) {
		text := m.Why + "\n" + m.Hint + "\n"
		if m.Interrupted {
			text += interrupted + "\n"
		}
		return []byte(text), nil
	},
	Decode: func(data []byte) (StopMark, error) {
		lines := append(strings.Split(string(data), "\n"), "", "", "")
		m := StopMark{Why: lines[0], Hint: lines[1], Interrupted: lines[2] == interrupted}
		if m.Why == "" {
			return m, fmt.Errorf("it does not contain a reason")
		}
		return m, nil
	},
})

// remainsStopped is the answer of StopMarkFile.
const remainsStopped statefile.Action = "the pod remains stopped, for an unknown reason"

// ReadStopMark returns the mark of a pod; nil if the pod was not stopped.
func ReadStopMark(l identity.Layout, uid string) *StopMark {
	found := StopMarkFile.Examine(context.Background(), l.Pod(uid).StoppedMark())
	switch {
	case found.State == statefile.Absent:
		return nil
	case found.Value.Why == "":
		return &StopMark{Why: "a command stopped it (" + found.Fault.Error() + ")"}
	}
	return &found.Value
}
