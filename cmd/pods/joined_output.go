package pods

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// joinWait is how long joinedOutput waits for attached output that overlaps the log.
const joinWait = 100 * time.Millisecond

// joinedOutput writes the output of a container from its start to a terminal. docker attaches
// before the start, but a CRI runtime attaches only to a running container, and does not transmit
// earlier output. The log contains the earlier output, except for a last line without a newline.
type joinedOutput struct {
	to io.Writer
	// log returns the lines that the log has so far.
	log func() []byte
	// before contains the lines that the log had before the attach. The runtime does not transmit
	// these again. It may transmit some of the later lines.
	before []byte

	mu     sync.Mutex
	window []byte // later lines of the log, until joined
	held   []byte // attached output, until joined
	begun  bool   // output has been attached
	joined bool
	err    error // the error of a write that the timer triggered
}

// Write holds the first output until it can be joined with the log.
func (j *joinedOutput) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return 0, j.err
	}
	if j.joined {
		return j.to.Write(p)
	}
	if !j.begun {
		j.begun = true
		if lines := j.log(); len(lines) > len(j.before) {
			j.window = lines[len(j.before):]
			time.AfterFunc(joinWait, j.join)
		}
	}
	j.held = append(j.held, p...)
	if len(j.held) >= len(j.window) {
		return len(p), j.joinLocked()
	}
	return len(p), nil
}

// join writes the held output. If another call is already writing it, join waits for that call.
func (j *joinedOutput) join() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.begun && !j.joined {
		j.err = j.joinLocked()
	}
}

func (j *joinedOutput) joinLocked() error {
	j.joined = true
	_, err := j.to.Write(joinOutputs(j.before, j.window, j.held))
	j.before = nil
	j.window = nil
	j.held = nil
	return err
}

// attached reports whether any output was attached.
func (j *joinedOutput) attached() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.begun
}

// joinOutputs appends attached output to lines of the log. If the end of window is also the
// beginning of attached, the result contains this part once.
func joinOutputs(before, window, attached []byte) []byte {
	for n := min(len(window), len(attached)); n > 0; n-- {
		if bytes.HasSuffix(window, attached[:n]) {
			window = window[:len(window)-n]
			break
		}
	}
	return append(append(append([]byte(nil), before...), window...), attached...)
}
