package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// PodState is the state of a pod that podrun records because the runtime has no record of it.
// It is stored in one file (identity.Layout.State); up to schema version 2, it was stored in three
// files.
type PodState struct {
	lifecycle.Kept                             // inline, so that an older version of podrun can show the pod
	Probes         map[string]lifecycle.Probed `json:"probes,omitempty"`  // last probe results, by container ID
	ProbedAt       time.Time                   `json:"probedAt,omitzero"` // when Probes were last valid; zero if there are none
	Resize         *lifecycle.Resize           `json:"resize,omitempty"`  // an in-place resize in progress; nil if there is none
}

// ErrNoPodDir means that a pod has no directory: it is new, or was deleted.
var ErrNoPodDir = errors.New("the pod has no directory")

// maxPodState is the maximum size of a pod's state, in bytes: that of the three files which it
// replaced.
const maxPodState = 3 * maxState

// ReadPodState reads the state of a pod. A missing part is zero. For a corrupt part, it also
// returns an error; the part is zero, too, except that a corrupt resize is an empty Resize, which
// makes podrun set the resources of the pod's cgroup again. That is harmless if the cgroup already
// has them. If a newer version of podrun wrote the file, there are no errors.
func ReadPodState(l identity.Layout, uid string) (PodState, []error) {
	s, _, errs := readPodState(l, uid)
	return s, errs
}

// readPodState is like ReadPodState, and also returns the schema version of the file. The
// version is 0 if the file is missing or its first line is corrupt.
func readPodState(l identity.Layout, uid string) (s PodState, version int, errs []error) {
	file := l.State(uid)
	data, err := hostfile.ReadNoFollow(context.Background(), file, maxPodState)
	content, version := identity.CutSchema(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err == nil && len(content) == 0 && version < identity.StateSchema:
		// The state was lost in a power failure. It contained no resize, because UpdatePodState
		// syncs a state with a resize.
	case err != nil:
		s.Resize, errs = &lifecycle.Resize{}, []error{fmt.Errorf("read the pod's state: %w", err)}
	case version > identity.Schema:
		s, _ = decodePodState(content, nil)
	default:
		s, errs = decodePodState(content, &lifecycle.Resize{})
		for i, err := range errs {
			errs[i] = fmt.Errorf("%s: %w", file, err)
		}
	}
	if version < identity.StateSchema {
		if version > 0 {
			s.Resize = nil // up to schema version 2, the resize is in a separate file
		}
		errs = append(errs, s.addLegacy(l, uid)...)
	}
	return s, version, errs
}

// decodePodState decodes the parts of a pod's state separately, so that a corrupt part does not
// affect the others. It returns corruptResize for a resize that it cannot decode.
func decodePodState(content []byte, corruptResize *lifecycle.Resize) (s PodState, errs []error) {
	var parts struct{ Probes, ProbedAt, Resize json.RawMessage }
	if err := json.Unmarshal(content, &parts); err != nil {
		return PodState{Resize: corruptResize}, []error{fmt.Errorf("read the pod's state: %w", err)}
	}
	s.Kept = decodePart(content, "status", lifecycle.Kept{}, &errs)
	s.Probes = decodePart[map[string]lifecycle.Probed](parts.Probes, "probe results", nil, &errs)
	s.ProbedAt = decodePart(parts.ProbedAt, "time of the probe results", time.Time{}, &errs)
	s.Resize = decodePart(parts.Resize, "resize", corruptResize, &errs)
	return s, errs
}

// decodePart decodes a part of a pod's state. If the part is missing, it returns the zero
// value. If the part cannot be decoded, it adds an error to errs and returns corrupt.
func decodePart[T any](data []byte, what string, corrupt T, errs *[]error) (value T) {
	if len(data) == 0 {
		return value
	}
	if err := json.Unmarshal(data, &value); err != nil {
		*errs = append(*errs, fmt.Errorf("read the pod's %s: %w", what, err))
		return corrupt
	}
	return value
}

// addLegacy reads the parts that are separate files up to schema version 2.
func (s *PodState) addLegacy(l identity.Layout, uid string) (errs []error) {
	probes, err := ReadJSON[map[string]lifecycle.Probed](l.LegacyProbes(uid), "the probe results")
	if err != nil {
		errs = append(errs, err)
	}
	s.Probes = probes
	if info, err := os.Lstat(l.LegacyProbes(uid)); err == nil {
		s.ProbedAt = info.ModTime()
	}
	resize, err := ReadJSON[*lifecycle.Resize](l.LegacyResize(uid), "the resize that has not finished")
	if err != nil {
		resize, errs = &lifecycle.Resize{}, append(errs, err)
	}
	if resize != nil {
		s.Resize = resize
	}
	return errs
}

// UpdatePodState changes the state of a pod. The caller holds the pod's lock. The new file is
// synced if mustSync requires it, or if it replaces the files of schema version 2, which are
// removed afterwards. The error is ErrNoPodDir if the pod has no directory, and of kind Refused
// (IsNewer) if a newer version of podrun wrote the file.
func UpdatePodState(l identity.Layout, uid string, change func(*PodState)) error {
	before, version, errs := readPodState(l, uid)
	if err := identity.CheckSchema(l.State(uid), version); err != nil {
		return newerError(l, uid, err)
	}
	for _, err := range errs {
		if !IsCorrupt(err) {
			return err // writing the file would erase the parts that cannot be read
		}
	}
	after := before
	change(&after)
	data, err := json.Marshal(after)
	if err != nil {
		return err
	}
	file := l.State(uid)
	switch err := os.Mkdir(filepath.Dir(file), 0o750); {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNoPodDir
	case err != nil && !errors.Is(err, fs.ErrExist):
		return err
	}
	write := hostfile.WriteUnsynced
	durable := mustSync(before, after) || version < identity.StateSchema && hasLegacyState(l, uid)
	if durable {
		write = hostfile.Write
	}
	if err := write(file, identity.AddStateSchema(data), 0o640); err != nil {
		return err
	}
	if durable && !wasSynced(before) {
		if err := hostfile.SyncDir(l.Plugins(uid)); err != nil { // the entry of the file's directory
			return err
		}
	}
	removeLegacyState(l, uid)
	return nil
}

// mustSync reports whether a changed state must be synced: after a power failure, a file that
// was not synced may be empty. The end of the pod and a resize must not be lost, whether they are
// in the new content or in the content that it replaces. New probe results are synced as well.
func mustSync(before, after PodState) bool {
	return endsOrResizes(before) || endsOrResizes(after) || !maps.Equal(before.Probes, after.Probes)
}

func endsOrResizes(s PodState) bool { return s.Terminal() || s.Resize != nil }

// wasSynced reports whether the file of a state was synced, with this content or with earlier
// content.
func wasSynced(s PodState) bool { return endsOrResizes(s) || len(s.Probes) > 0 }

func hasLegacyState(l identity.Layout, uid string) bool {
	for _, file := range legacyState(l, uid) {
		if _, err := os.Lstat(file); err == nil {
			return true
		}
	}
	return false
}

func legacyState(l identity.Layout, uid string) []string {
	return []string{l.LegacyProbes(uid), l.LegacyResize(uid)}
}

// removeLegacyState removes the files of schema version 2. ReadPodState no longer reads them, so a
// file that cannot be removed has no effect; the next update tries again.
func removeLegacyState(l identity.Layout, uid string) {
	for _, file := range legacyState(l, uid) {
		if os.Remove(file) == nil {
			faultpoint.At("state/" + filepath.Base(file) + "/removed")
			_ = os.Remove(filepath.Dir(file)) // fails if a killed podrun process left a temporary file in it
		}
	}
}
