package store

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/treetest"
	"github.com/podrun/podrun/run/lifecycle"
)

// TestDirectoriesOfStateFilesAreDurable covers the directory that podrun creates for the first
// state file of a kind. podrun once synced the file but not the directory, which was then missing
// after a power failure.
func TestDirectoriesOfStateFilesAreDurable(t *testing.T) {
	resize := PodState{Resize: &lifecycle.Resize{Group: true}}
	for name, tc := range map[string]struct {
		before, do func(l identity.Layout) error
		want       bool // whether podrun syncs the directory's entry
	}{
		"pending restarts": {do: func(l identity.Layout) error {
			return PendingRestartsFile.Write(l.Pod("u").PendingRestarts(), map[string]lifecycle.PendingRestart{"x": {}})
		}, want: true},
		"other pending restarts": {
			before: func(l identity.Layout) error {
				return PendingRestartsFile.Write(l.Pod("u").PendingRestarts(), map[string]lifecycle.PendingRestart{"x": {}})
			},
			do: func(l identity.Layout) error {
				return PendingRestartsFile.Write(l.Pod("u").PendingRestarts(), map[string]lifecycle.PendingRestart{"y": {}})
			},
		},
		"status":         {do: func(l identity.Layout) error { return setState(l, PodState{ProbedAt: stateTime(1)}) }},
		"resize":         {do: func(l identity.Layout) error { return setState(l, resize) }, want: true},
		"status, resize": {before: func(l identity.Layout) error { return setState(l, PodState{ProbedAt: stateTime(1)}) }, do: func(l identity.Layout) error { return setState(l, resize) }, want: true},
		"resize, end":    {before: func(l identity.Layout) error { return setState(l, resize) }, do: func(l identity.Layout) error { return setState(l, PodState{}) }},
	} {
		l := identity.Layout{RootDir: t.TempDir(), RunDir: t.TempDir()}
		err := os.MkdirAll(l.Pod("u").Plugins(), 0o750)
		if err == nil && tc.before != nil {
			err = tc.before(l)
		}
		if err != nil {
			t.Fatal(err)
		}
		synced := treetest.Syncs(t, func() { err = tc.do(l) })
		if got := slices.Contains(synced, filepath.Clean(l.Pod("u").Plugins())); err != nil || got != tc.want {
			t.Errorf("%s: synced %q, %v", name, synced, err)
		}
	}
}

// setState replaces the state of pod u.
func setState(l identity.Layout, s PodState) error {
	return UpdatePodState(l, "u", func(now *PodState) { *now = s })
}
