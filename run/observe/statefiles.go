package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// readRestarted reads the IDs of the containers that ended with the last restart of all containers. It
// returns nil if there was none.
func readRestarted(l identity.Layout, uid string) (map[string]bool, error) {
	ids, err := store.ReadJSON[[]string](l.Restarted(uid), "the record of containers that were restarted together")
	if err != nil || ids == nil {
		return nil, err
	}
	out := make(map[string]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out, nil
}

// readPendingRestarts reads the pending restarts of containers, by name; nil if there are none.
func readPendingRestarts(l identity.Layout, uid string) (map[string]lifecycle.PendingRestart, error) {
	return store.ReadJSON[map[string]lifecycle.PendingRestart](l.PendingRestarts(uid), "the record of containers that are being restarted")
}

func readHooks(l identity.Layout, uid string) (map[string]lifecycle.HookState, error) {
	entries, err := os.ReadDir(l.HookMarks(uid))
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
		file := filepath.Join(l.HookMarks(uid), e.Name())
		data, err := store.ReadState(file)
		if os.IsNotExist(err) {
			// The file was removed after the directory was listed.
			continue
		}
		state := lifecycle.HookState(data)
		if err == nil && state != lifecycle.HookPending && state != lifecycle.HookDone && state != lifecycle.HookFailed {
			err = fmt.Errorf("the state is not one of %s, %s and %s", lifecycle.HookPending, lifecycle.HookDone, lifecycle.HookFailed)
		}
		if err != nil {
			// The hook will run again, because running it twice is better than never running it.
			state = lifecycle.HookPending
			if !store.StateNewer(file) {
				corrupt = fmt.Errorf("read the state file of a postStart hook: %w", store.InFile(file, err))
			}
		}
		hooks[e.Name()] = state
	}
	return hooks, corrupt
}
