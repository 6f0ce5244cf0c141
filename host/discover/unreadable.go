package discover

import (
	"fmt"
	"slices"
	"sync"
)

// unreadable collects the state files that could not be read or understood, each with the
// reason. A corrupt file of one pod must not cause the refusal of another pod, so the
// file is left out. Nil drops added files.
type unreadable struct {
	mu   sync.Mutex
	list []string
}

// add notes a file. Err names its path.
func (u *unreadable) add(what string, err error) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, fmt.Sprintf("%s: %v", what, err))
}

func (u *unreadable) sorted() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	slices.Sort(u.list)
	return u.list
}
