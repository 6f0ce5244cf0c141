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

// PodState is the state of a pod that podrun records because the runtime does not have it. It is
// stored in one file (identity.Layout.State); up to schema version 2, there were three files.
type PodState struct {
	lifecycle.Kept                             // inline, so that an older version of podrun can read these fields and show the pod
	Probes         map[string]lifecycle.Probed `json:"probes,omitempty"` // the last results of the probes, by container ID
	// the last time at which Probes was known to be valid; zero if there are no results
	ProbedAt time.Time         `json:"probedAt,omitzero"`
	Resize   *lifecycle.Resize `json:"resize,omitempty"` // an in-place resize in progress; nil if there is none
}

// ErrNoPodDir means that a pod has no directory, because it is new or was deleted.
var ErrNoPodDir = errors.New("the pod has no directory")

// maxPodState is the maximum size of a pod's state in bytes. It is the sum of the limits of the
// three files that it replaced.
const maxPodState = 3 * maxState

// ReadPodState reads the state of a pod. A part that is missing or corrupt is zero; for a corrupt part, ReadPodState
// also returns an error. As an exception, a corrupt resize becomes an empty Resize, so that podrun sets the resources
// of the pod's cgroup again, which is harmless if the cgroup already has them. If a newer version of podrun wrote the
// file, ReadPodState returns no errors.
func ReadPodState(l identity.Layout, uid string) (PodState, []error) {
	s, _, errs := readPodState(l, uid)
	return s, errs
}

// readPodState implements ReadPodState, and also returns the schema version of the file. The
// version is 0 if the file is missing or its first line is corrupt.
func readPodState(l identity.Layout, uid string) (s PodState, version int, errs []error) {
	file := l.State(uid)
	data, err := hostfile.ReadNoFollow(context.Background(), file, maxPodState)
	content, version := identity.CutSchema(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err == nil && len(content) == 0 && version < identity.StateSchema:
		// A power failure has destroyed the state. It contained no resize, because UpdatePodState
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
			// Up to schema version 2, the resize is in a separate file.
			s.Resize = nil
		}
		errs = append(errs, s.addLegacy(l, uid)...)
	}
	return s, version, errs
}

// decodePodState decodes each part of a pod's state separately, so that a corrupt part does not
// affect the others. If it cannot decode a resize, it returns corruptResize.
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

// UpdatePodState changes the state of a pod. The caller holds the pod's lock. It syncs the new file
// if mustSync returns true, or if the file replaces the files of schema version 2, which it then
// removes. It returns ErrNoPodDir if the pod has no directory. The error is of kind Refused
// (IsNewer) if a newer version of podrun wrote the file.
func UpdatePodState(l identity.Layout, uid string, change func(*PodState)) error {
	before, version, errs := readPodState(l, uid)
	if err := identity.CheckSchema(l.State(uid), version); err != nil {
		return newerError(l, uid, err)
	}
	for _, err := range errs {
		if !IsCorrupt(err) {
			// A write would erase the parts that cannot be read.
			return err
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
		// This makes the entry of the file's directory durable.
		if err := hostfile.SyncDir(l.Plugins(uid)); err != nil {
			return err
		}
	}
	removeLegacyState(l, uid)
	return nil
}

// mustSync reports whether podrun must sync a changed state, because a file that was not synced may
// be empty after a power failure. podrun syncs the state if the old or the new content records the
// end of the pod or a resize, which a power failure must not destroy. It also syncs new probe
// results.
func mustSync(before, after PodState) bool {
	return endsOrResizes(before) || endsOrResizes(after) || !maps.Equal(before.Probes, after.Probes)
}

func endsOrResizes(s PodState) bool { return s.Terminal() || s.Resize != nil }

// wasSynced reports whether podrun has synced the file of a state, with this content or with
// earlier content.
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

// removeLegacyState removes the files of schema version 2, which ReadPodState no longer reads. A file that it cannot
// remove therefore has no effect, and the next update tries again.
func removeLegacyState(l identity.Layout, uid string) {
	for _, file := range legacyState(l, uid) {
		if os.Remove(file) == nil {
			faultpoint.At("state/" + filepath.Base(file) + "/removed")
			// The removal of the directory fails if a killed podrun process left a temporary file in it.
			_ = os.Remove(filepath.Dir(file))
		}
	}
}
