package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/identity"
)

// room is what this process was promised for a pod that is here already: a file
// with what the pod will ask for, which counts for other admissions for as long
// as it is locked. The kernel unlocks it when the process ends, however it ends.
// A nil room promises nothing.
type room struct {
	file *os.File
	path string
}

// runs tells whether the plan's pod has a sandbox that is ready, by the facts.
func (p *Plan) runs() bool {
	return slices.ContainsFunc(p.facts.Pods, func(h host.Pod) bool { return h.UID == p.ID.UID && h.Ready })
}

// holdRoom keeps free what a pod will ask for. The node's lock must be held.
func (e *Engine) holdRoom(p *Plan) (*room, error) {
	data, err := json.Marshal(admission.Describe(p.Pod, p.Devices))
	if err != nil {
		return nil, fmt.Errorf("pod %s: hold its room: %w", p.ID, err)
	}
	dir := e.layout().Rooms()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("pod %s: hold its room: %w", p.ID, err)
	}
	// Written under another name, which nobody reads, until it is locked.
	f, err := os.CreateTemp(dir, ".")
	if err != nil {
		return nil, fmt.Errorf("pod %s: hold its room: %w", p.ID, err)
	}
	r := &room{file: f, path: f.Name()}
	final := filepath.Join(dir, filepath.Base(f.Name())[1:])
	_, err = f.Write(data)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		err = os.Rename(r.path, final)
	}
	if err != nil {
		r.release()
		return nil, fmt.Errorf("pod %s: hold its room: %w", p.ID, err)
	}
	r.path = final
	return r, nil
}

// release gives up what was promised: the pod has it, or will not come.
func (r *room) release() {
	if r == nil || r.file == nil {
		return
	}
	_ = os.Remove(r.path) // without its lock it counts no more, and is swept
	r.file.Close()
	r.file = nil
}

// sweepRooms removes the promises of processes that are gone. The node's lock
// must be held: it covers their making.
func sweepRooms(layout identity.Layout) error {
	entries, err := os.ReadDir(layout.Rooms())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list what is kept free for pods: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(layout.Rooms(), entry.Name())
		f, err := os.Open(path)
		if err != nil {
			continue // released meanwhile
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
			_ = os.Remove(path) // the next one tries again
		}
		f.Close()
	}
	return nil
}
