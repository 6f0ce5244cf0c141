package rig

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/test/patience"
)

// Residue lists all remaining objects of pods on the host, except locks.
func (h *Host) Residue() []string {
	left := h.Runtime.Leaked()
	for _, dir := range []string{h.Layout().PodsDir(), h.Settings.PodLogsDir, h.Settings.ContainerLogsDir, h.Layout().Owners(), h.Layout().Claims()} {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			h.T.Error(err)
		}
		for _, e := range entries {
			// This file belongs to a running command.
			if path := filepath.Join(dir, e.Name()); dir != h.Layout().Claims() || !hostfile.IsLocked(path) {
				left = append(left, path)
			}
		}
	}
	return append(left, CgroupsOf(h.Settings.CgroupRoot)...)
}

// NothingLeft checks that no sandbox, container, directory, log, link, cgroup or held lock
// remains.
func (h *Host) NothingLeft() {
	h.T.Helper()
	if left := h.Residue(); len(left) > 0 {
		h.T.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
	h.NoLockHeld()
}

// NoLockHeld checks that no process holds a lock.
func (h *Host) NoLockHeld() {
	h.T.Helper()
	entries, err := os.ReadDir(string(h.Layout().Locks()))
	if err != nil && !os.IsNotExist(err) {
		h.T.Error(err)
	}
	for _, e := range entries {
		f, err := os.Open(filepath.Join(string(h.Layout().Locks()), e.Name()))
		if err != nil {
			h.T.Error(err)
			continue
		}
		// The kernel may close the files of a killed process some time after its exit.
		patience.Wait(h.T, patience.OnFake, "lock "+e.Name()+" is free", func() bool {
			return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil
		})
		f.Close()
	}
}

// NoSourceLeft checks that no source record remains.
func (h *Host) NoSourceLeft() {
	h.T.Helper()
	left, err := filepath.Glob(filepath.Join(h.Layout().Serve().Sources(), "*"))
	if err != nil || len(left) > 0 {
		h.T.Errorf("source records left: %v %v", left, err)
	}
}
