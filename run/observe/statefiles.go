package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// readRestarted reads the IDs of the containers that a restart of all containers ended;
// nothing if there was none.
func readRestarted(l identity.Layout, uid string) (map[string]bool, error) {
	ids, err := readJSON[[]string](l.Restarted(uid), "the record of containers that were restarted together")
	if err != nil || ids == nil {
		return nil, err
	}
	out := make(map[string]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out, nil
}

// readPendingRestarts reads which containers podrun kills to start them again; nothing if
// there is none.
func readPendingRestarts(l identity.Layout, uid string) (map[string]lifecycle.PendingRestart, error) {
	return readJSON[map[string]lifecycle.PendingRestart](l.PendingRestarts(uid), "the record of containers that are being restarted")
}

// readJSON reads the value of a state file: the zero value if the file does not exist, or if
// a newer podrun wrote it in a form that this one does not know. What is the content, for the
// error.
func readJSON[T any](file, what string) (value T, err error) {
	var none T
	data, err := store.ReadState(file)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &value)
	}
	switch {
	case err == nil:
		return value, nil
	case store.StateNewer(file):
		return none, nil
	}
	return none, fmt.Errorf("read %s: %w", what, inFile(file, err))
}

func readHooks(l identity.Layout, uid string) (map[string]lifecycle.HookState, error) {
	entries, err := os.ReadDir(l.HookMarks(uid))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the marks of postStart hooks: %w", err)
	}
	hooks := map[string]lifecycle.HookState{}
	var corrupt error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // is being written
		}
		file := filepath.Join(l.HookMarks(uid), e.Name())
		data, err := store.ReadState(file)
		if os.IsNotExist(err) {
			continue // removed since it was listed
		}
		state := lifecycle.HookState(data)
		if err == nil && state != lifecycle.HookPending && state != lifecycle.HookDone && state != lifecycle.HookFailed {
			err = fmt.Errorf("it is none of %s, %s and %s", lifecycle.HookPending, lifecycle.HookDone, lifecycle.HookFailed)
		}
		if err != nil {
			// The hook runs again: it is never skipped, at worst repeated.
			state = lifecycle.HookPending
			if !store.StateNewer(file) {
				corrupt = fmt.Errorf("read the mark of a postStart hook: %w", inFile(file, err))
			}
		}
		hooks[e.Name()] = state
	}
	return hooks, corrupt
}

// readProbed reads the last results of probes; nothing if none has run.
func readProbed(l identity.Layout, uid string) (map[string]lifecycle.Probed, error) {
	return readJSON[map[string]lifecycle.Probed](l.ProbeResults(uid), "the probe results")
}

// ProbedAt is when the results of a pod's probes were written down; zero if none were.
func ProbedAt(l identity.Layout, uid string) time.Time {
	info, err := os.Lstat(l.ProbeResults(uid))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// readResize reads a resize in place that is in progress; nil for none. An unreadable one
// counts as not started, except for the pod's cgroup: setting values that it already has
// is harmless.
func readResize(l identity.Layout, uid string) (*lifecycle.Resize, error) {
	r, err := readJSON[*lifecycle.Resize](l.Resize(uid), "the resize that has not finished")
	if err != nil {
		return &lifecycle.Resize{}, err
	}
	return r, nil
}

// inFile names the file in an error that does not.
func inFile(file string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	return fmt.Errorf("%s: %w", file, err)
}
