package observe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// readRestarted reads the IDs of the containers that ended with the last restart of all containers. It
// returns nil if there was none.
func readRestarted(l identity.Layout, uid string) (map[string]bool, error) {
	ids, fault, err := store.RestartedFile.Read(context.Background(), l.Pod(uid).Restarted())
	if err != nil || ids == nil {
		return nil, reported(fault, err)
	}
	out := make(map[string]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out, nil
}

// readPendingRestarts reads the pending restarts of containers, by name; nil if there are none.
func readPendingRestarts(l identity.Layout, uid string) (map[string]lifecycle.PendingRestart, error) {
	pending, fault, err := store.PendingRestartsFile.Read(context.Background(), l.Pod(uid).PendingRestarts())
	return pending, reported(fault, err)
}

// reported returns the error, or the fault of a file that counts as absent; nil if there is neither.
func reported(fault *statefile.Fault, err error) error {
	if err == nil && fault != nil {
		return fault
	}
	return err
}

func readHooks(l identity.Layout, uid string) (map[string]lifecycle.HookState, error) {
	entries, err := os.ReadDir(l.Pod(uid).HookMarks())
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the states of postStart hooks: %w", err)
	}
	hooks := map[string]lifecycle.HookState{}
	var corrupt error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // the file is being written
		}
		file := filepath.Join(l.Pod(uid).HookMarks(), e.Name())
		found := store.HookFile.Examine(context.Background(), file)
		switch found.State {
		case statefile.Absent: // The file was removed after the directory was listed.
			continue
		case statefile.Intact:
			hooks[e.Name()] = found.Value
			continue
		case statefile.Corrupt, statefile.Unreadable:
			corrupt = found.Fault
		case statefile.Newer: // podrun refuses to change the pod
		}
		// The hook will run again, because running it twice is better than never running it.
		hooks[e.Name()] = lifecycle.HookPending
	}
	return hooks, corrupt
}
