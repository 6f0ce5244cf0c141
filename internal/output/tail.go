package output

import (
	"bytes"
	"sync"
)

// Tail keeps about the last Limit bytes that are written to it, without blocking the writer. Its
// methods can be called concurrently.
type Tail struct {
	Limit int

	mu   sync.Mutex
	kept []byte
	cut  bool
}

// Write never returns an error.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if over := n - t.Limit; over > 0 {
		t.kept, t.cut, p = t.kept[:0], true, p[over:]
	}
	t.kept = append(t.kept, p...)
	// This copy is rare, because each byte is moved at most once.
	if len(t.kept) > 2*t.Limit {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.Limit:]...)
		t.cut = true
	}
	return n, nil
}

// Lines returns the last Limit bytes. It also reports whether Tail dropped earlier bytes. If it
// did, Lines omits the rest of the incomplete first line, unless no other line follows.
func (t *Tail) Lines() (text string, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.kept
	if over := len(kept) - t.Limit; over > 0 {
		kept, t.cut = kept[over:], true
	}
	if t.cut {
		if end := bytes.IndexByte(kept, '\n'); end >= 0 && end < len(kept)-1 {
			kept = kept[end+1:]
		}
	}
	return string(kept), t.cut
}
