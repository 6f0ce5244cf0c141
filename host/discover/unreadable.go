package discover

import (
	"slices"
	"sync"

	"github.com/podrun/podrun/internal/statefile"
)

// unreadable collects the state files that podrun cannot use, each with the reason. podrun ignores
// the content of these files, because a file of one pod must not prevent the start of another
// pod. A nil *unreadable collects nothing.
type unreadable struct {
	mu   sync.Mutex
	list []string
	// lacking is an error that says nothing about a file, because this process lacks a resource. The
	// facts are then incomplete.
	lacking error
}

// add records a file that podrun cannot use; fault may be nil.
func (u *unreadable) add(fault *statefile.Fault) {
	if u == nil || fault == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if statefile.LacksResources(fault) {
		u.lacking = fault
		return
	}
	u.list = append(u.list, fault.Error())
}

func (u *unreadable) sorted() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	slices.Sort(u.list)
	return u.list
}

func (u *unreadable) incomplete() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lacking == nil {
		return nil
	}
	return factError("read the state of pods", u.lacking, "")
}
