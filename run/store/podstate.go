package store

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/run/lifecycle"
)

// PodState is the state of a pod that podrun records because the runtime does not have it. It is
// stored in one file (identity.PodDir.State); up to schema version 2, there were three files.
type PodState struct {
	lifecycle.Kept                             // inline, so that an older version of podrun can read these fields and show the pod
	Probes         map[string]lifecycle.Probed `json:"probes,omitempty"` // the last results of the probes, by container ID
	// the last time at which Probes was known to be valid; zero if there are no results
	ProbedAt time.Time         `json:"probedAt,omitzero"`
	Resize   *lifecycle.Resize `json:"resize,omitempty"` // an in-place resize in progress; nil if there is none
}

// ErrNoPodDir means that a pod has no directory, because it is new or was deleted.
var ErrNoPodDir = errors.New("the pod has no directory")

// podStateContent is the decoded content of a pod's state file.
type podStateContent struct {
	state PodState
	// corrupt is true if a part is corrupt; lostResize is true if the resize is.
	corrupt, lostResize bool
}

var podStateFile = statefile.Declare(statefile.Kind[podStateContent]{
	What: "the pod's state", Files: "pods/<uid>/plugins/podrun.dev~status/status.json", Scope: statefile.OfPod,
	On: statefile.Answers{Absent: "nothing is recorded", Corrupt: "the other parts are used, with a warning; podrun repeats the resize in place",
		Unreadable: "counts as absent, with a warning; podrun does not write it", Newer: statefile.Partial},
	Paths: statefile.EachPod(identity.PodDir.State), Version: identity.StateSchema, Mode: 0o640,
	Unsynced: true,    // an empty file contained no resize, because UpdatePodState syncs a state with a resize
	Limit:    3 << 20, // the sum of the limits of the three files that it replaced
	Decode: func(data []byte) (podStateContent, error) {
		lost := &lifecycle.Resize{}
		s, err := decodePodState(data, lost)
		return podStateContent{state: s, corrupt: err != nil, lostResize: s.Resize == lost}, err
	},
	Encode: func(c podStateContent) ([]byte, error) { return json.Marshal(c.state) },
})

var legacyProbesFile = statefile.Declare(statefile.Kind[map[string]lifecycle.Probed]{
	What: "the probe results", Files: "pods/<uid>/plugins/podrun.dev~probes/results.json", Scope: statefile.OfPod,
	On: statefile.Answers{
		Absent:     "no results; only an older podrun writes the file",
		Corrupt:    statefile.Report,
		Unreadable: statefile.Report,
		Newer:      statefile.Ignore,
	},
	Paths: statefile.EachPod(identity.PodDir.LegacyProbes),
})

var legacyResizeFile = statefile.Declare(statefile.Kind[*lifecycle.Resize]{
	What: "the resize that has not finished", Files: "pods/<uid>/plugins/podrun.dev~resize/resize.json", Scope: statefile.OfPod,
	On: statefile.Answers{
		Absent:     "no resize; only an older podrun writes the file",
		Corrupt:    resizeAgain,
		Unreadable: resizeAgain,
		Newer:      statefile.Ignore,
	},
	Paths: statefile.EachPod(identity.PodDir.LegacyResize),
})

// resizeAgain is the answer of legacyResizeFile.
const resizeAgain statefile.Action = "podrun repeats the resize, with a warning"

// ReadPodState reads the state of a pod. A part that is missing or corrupt is zero; for a corrupt part, ReadPodState
// also returns an error. As an exception, a corrupt resize becomes an empty Resize, so that podrun sets the resources
// of the pod's cgroup again, which is harmless if the cgroup already has them. If a newer version of podrun wrote the
// file, ReadPodState returns no errors.
func ReadPodState(l identity.Layout, uid string) (PodState, []error) {
	s, _, errs := readPodState(l, uid)
	return s, errs
}

// readPodState implements ReadPodState, and also returns what was found in the file.
func readPodState(l identity.Layout, uid string) (s PodState, found statefile.Found[podStateContent], errs []error) {
	found = podStateFile.Examine(context.Background(), l.Pod(uid).State())
	s = found.Value.state
	switch {
	case found.State == statefile.Newer && found.Value.lostResize:
		s.Resize = nil
	case found.State == statefile.Unreadable, found.State == statefile.Corrupt && !found.Value.corrupt:
		s.Resize, errs = &lifecycle.Resize{}, []error{found.Fault}
	case found.State == statefile.Corrupt:
		errs = []error{found.Fault}
	}
	if found.Version >= identity.StateSchema {
		return s, found, errs
	}
	if found.Version > 0 {
		// Up to schema version 2, the resize is in a separate file.
		s.Resize = nil
	}
	return s, found, append(errs, s.addLegacy(l, uid)...)
}

// decodePodState decodes each part of a pod's state separately, so that a corrupt part does not
// affect the others. If it cannot decode a resize, it returns corruptResize.
func decodePodState(content []byte, corruptResize *lifecycle.Resize) (s PodState, err error) {
	var parts struct{ Probes, ProbedAt, Resize json.RawMessage }
	if err := json.Unmarshal(content, &parts); err != nil {
		return PodState{Resize: corruptResize}, err
	}
	var failed []string
	s.Kept = decodePart(content, "status", lifecycle.Kept{}, &failed)
	s.Probes = decodePart[map[string]lifecycle.Probed](parts.Probes, "probe results", nil, &failed)
	s.ProbedAt = decodePart(parts.ProbedAt, "time of the probe results", time.Time{}, &failed)
	s.Resize = decodePart(parts.Resize, "resize", corruptResize, &failed)
	if len(failed) > 0 {
		return s, errors.New(strings.Join(failed, "; "))
	}
	return s, nil
}

// decodePart decodes a part of a pod's state. If the part is missing, it returns the zero
// value. If the part cannot be decoded, it adds the reason to failed and returns corrupt.
func decodePart[T any](data []byte, what string, corrupt T, failed *[]string) (value T) {
	if len(data) == 0 {
		return value
	}
	if err := json.Unmarshal(data, &value); err != nil {
		*failed = append(*failed, what+": "+err.Error())
		return corrupt
	}
	return value
}

// addLegacy reads the parts that are separate files up to schema version 2.
func (s *PodState) addLegacy(l identity.Layout, uid string) (errs []error) {
	probes, fault, _ := legacyProbesFile.Read(context.Background(), l.Pod(uid).LegacyProbes()) // err is the fault
	if fault != nil {
		errs = append(errs, fault)
	}
	s.Probes = probes
	if info, err := os.Lstat(l.Pod(uid).LegacyProbes()); err == nil {
		s.ProbedAt = info.ModTime()
	}
	resize, fault, _ := legacyResizeFile.Read(context.Background(), l.Pod(uid).LegacyResize()) // err is the fault
	if fault != nil {
		resize, errs = &lifecycle.Resize{}, append(errs, fault)
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
	before, found, errs := readPodState(l, uid)
	if found.State == statefile.Newer {
		return newerError(l, uid, found.Fault)
	}
	for _, err := range errs {
		if !IsCorrupt(err) {
			// A write would erase the parts that cannot be read.
			return err
		}
	}
	after := before
	change(&after)
	file := l.Pod(uid).State()
	switch err := os.Mkdir(filepath.Dir(file), 0o750); {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNoPodDir
	case err != nil && !errors.Is(err, fs.ErrExist):
		return err
	}
	write := podStateFile.Write
	durable := mustSync(before, after) || found.Version < identity.StateSchema && hasLegacyState(l, uid)
	if durable {
		write = podStateFile.WriteDurable
	}
	if err := write(file, podStateContent{state: after}); err != nil {
		return err
	}
	if durable && !wasSynced(before) {
		// This makes the entry of the file's directory durable.
		if err := hostfile.SyncDir(l.Pod(uid).Plugins()); err != nil {
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
	return []string{l.Pod(uid).LegacyProbes(), l.Pod(uid).LegacyResize()}
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
