package discover

import (
	"fmt"
	"slices"
	"sync"
)

// unreadable collects corrupt or unreadable state files, each with the reason. podrun ignores the
// content of these files, because a corrupt file of one pod must not prevent the start of another
// pod. A nil *unreadable collects nothing.
type unreadable struct {
	mu   sync.Mutex
	list []string
}

// add records a file with the reason why podrun cannot use it. The text of err includes the file's path.
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
