// Package sessions limits the number of flows without connections (UDP), and ends those that are idle.
package sessions

import (
	"container/list"
	"sync"
	"time"
)

// The idle times after which a session ends, as those of the kernel's connection tracking: a short one
// until the destination has answered.
const (
	Unanswered = 30 * time.Second
	Answered   = 2 * time.Minute
)

// Set is a set of sessions. If it is full, the session that has been idle longest gives way to a new
// one.
type Set struct {
	mu    sync.Mutex
	order *list.List // of *Session, the longest idle one first
	limit int
}

// Session is one session.
type Session struct {
	set      *Set
	at       *list.Element // set.mu; nil after the end
	answered bool          // set.mu
	timer    *time.Timer
	once     sync.Once
	close    func()
}

// New returns an empty set.
func New(limit int) *Set { return &Set{order: list.New(), limit: limit} }

// Add adds a session. close is called once, at its end.
func (s *Set) Add(close func()) *Session {
	x := &Session{set: s, close: close}
	s.mu.Lock()
	var oldest *Session
	if s.order.Len() >= s.limit {
		oldest = s.order.Front().Value.(*Session)
		oldest.drop()
	}
	x.at = s.order.PushBack(x)
	x.timer = time.AfterFunc(Unanswered, x.End)
	s.mu.Unlock()
	if oldest != nil {
		oldest.End()
	}
	return x
}

// Active records data of a session: answer means data from the destination.
func (x *Session) Active(answer bool) {
	x.set.mu.Lock()
	defer x.set.mu.Unlock()
	if x.at == nil {
		return
	}
	x.answered = x.answered || answer
	idle := Unanswered
	if x.answered {
		idle = Answered
	}
	x.timer.Reset(idle)
	x.set.order.MoveToBack(x.at)
}

// End ends a session. It is idempotent.
func (x *Session) End() {
	x.set.mu.Lock()
	x.drop()
	x.set.mu.Unlock()
	x.once.Do(x.close)
}

// drop requires the lock.
func (x *Session) drop() {
	if x.at == nil {
		return
	}
	x.set.order.Remove(x.at)
	x.at = nil
	x.timer.Stop()
}

// Count returns the number of sessions.
func (s *Set) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.Len()
}

// End ends all sessions.
func (s *Set) End() {
	for {
		s.mu.Lock()
		front := s.order.Front()
		s.mu.Unlock()
		if front == nil {
			return
		}
		front.Value.(*Session).End()
	}
}
