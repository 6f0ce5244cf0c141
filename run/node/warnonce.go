package node

import (
	"sync"

	"github.com/podrun/podrun/internal/problem"
)

// WarnOnce sends a warning unless n has sent it before, because podrun finds a problem in a state file
// each time it observes the pod. A supervisor runs for months and may warn about pods that were
// deleted long ago, so n remembers only the last maxWarned warnings.
func (n *Node) WarnOnce(p problem.Problem) {
	if n.warned.add(p.String()) {
		p.Warning = true
		n.SendWarnings(problem.List{p})
	}
}

// maxWarned is the number of warnings that a Node remembers: far more than the problems that a host
// has at any time.
const maxWarned = 1024

// recent contains the last maxWarned texts. The zero value is ready to use; it is safe for concurrent
// use.
type recent struct {
	mu    sync.Mutex
	known map[string]bool
	order []string // when full, a ring buffer
	next  int      // the index of the oldest text
}

// add adds a text, and reports whether it is new.
func (r *recent) add(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[text] {
		return false
	}
	if r.known == nil {
		r.known = map[string]bool{}
	}
	r.known[text] = true
	if len(r.order) < maxWarned {
		r.order = append(r.order, text)
		return true
	}
	delete(r.known, r.order[r.next])
	r.order[r.next] = text
	r.next = (r.next + 1) % maxWarned
	return true
}
