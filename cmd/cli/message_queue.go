package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/problem"
)

const (
	// maxQueued is the size of the messages that a messageQueue keeps, in bytes.
	maxQueued = 1 << 20
	// flushLimit is how long podrun waits, before it exits, until its messages are written.
	flushLimit = 2 * time.Second
)

// messageQueue is a writer that never blocks. It writes in the background. If that takes too long, it
// drops messages and later reports their number. Each call of Write is one message. It is safe for
// concurrent use.
type messageQueue struct {
	to     io.Writer
	notice func(lost int) []byte // reports lost messages

	mu     sync.Mutex
	queued []queuedMessage
	size   int // the size of the queued texts in bytes
	// closed when all messages are written; nil if none is queued
	idle chan struct{}
}

// queuedMessage is an entry of the queue: a message or, if text is nil, the number of messages that were lost at this
// position.
type queuedMessage struct {
	text []byte
	lost int
}

// Write queues a copy of p. It returns len(p) and no error.
func (q *messageQueue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := len(q.queued) - 1
	switch {
	case q.size+len(p) <= maxQueued:
		q.queued = append(q.queued, queuedMessage{text: bytes.Clone(p)})
		q.size += len(p)
	case last >= 0 && q.queued[last].text == nil:
		q.queued[last].lost++
	default:
		q.queued = append(q.queued, queuedMessage{lost: 1})
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.drain()
	}
	return len(p), nil
}

// drain writes messages until none is queued. It ignores errors, because it could only report them to
// the same stream.
func (q *messageQueue) drain() {
	for {
		q.mu.Lock()
		if len(q.queued) == 0 {
			close(q.idle)
			q.idle = nil
			q.mu.Unlock()
			return
		}
		next := q.queued[0]
		q.queued = q.queued[1:]
		q.size -= len(next.text)
		q.mu.Unlock()
		if next.text == nil {
			next.text = q.notice(next.lost)
		}
		_, _ = q.to.Write(next.text)
	}
}

// flush waits up to limit until all messages are written, and reports whether they are.
func (q *messageQueue) flush(limit time.Duration) bool {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return true
	}
	select {
	case <-idle:
		return true
	case <-time.After(limit):
		return false
	}
}

// QueueMessages makes podrun write messages to stderr in the background: a supervisor must not block when
// the process that reads its messages stops reading. If stderr is a terminal, it changes nothing, because
// the progress of pulls is drawn there.
func (a *App) QueueMessages() {
	if TerminalOf(a.Raw.Err) != nil {
		return
	}
	a.messages = &messageQueue{to: a.Raw.Err, notice: a.lostMessages}
	a.Raw.Err = a.messages
}

// lostMessages returns the warning that messages were dropped.
func (a *App) lostMessages(lost int) []byte {
	text := fmt.Sprintf("%d messages were not printed, because the output was not read", lost)
	if a.JSONMessages {
		if data, err := json.Marshal(problem.Problem{Message: text, Warning: true}); err == nil {
			return append(data, '\n')
		}
	}
	return []byte("warning: " + text + "\n")
}

// FlushMessages writes queued messages before podrun exits.
func (a *App) FlushMessages() {
	if a.messages != nil {
		a.messages.flush(flushLimit)
	}
}
