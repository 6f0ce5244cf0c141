package sessions

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimit(t *testing.T) {
	var ended []string
	s := New(2)
	add := func(name string) *Session { return s.Add(func() { ended = append(ended, name) }) }
	a, b := add("a"), add("b")
	a.Active(false)
	add("c") // b has been idle longest
	if !slices.Equal(ended, []string{"b"}) || s.Count() != 2 {
		t.Errorf("ended: %q, %d left", ended, s.Count())
	}
	b.Active(true) // no effect
	b.End()
	a.End()
	a.End()
	if !slices.Equal(ended, []string{"b", "a"}) || s.Count() != 1 {
		t.Errorf("ended: %q, %d left", ended, s.Count())
	}
	s.End()
	if !slices.Equal(ended, []string{"b", "a", "c"}) || s.Count() != 0 {
		t.Errorf("ended: %q, %d left", ended, s.Count())
	}
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := map[string]time.Duration{}
		begin := time.Now()
		s := New(10)
		add := func(name string) *Session { return s.Add(func() { ended[name] = time.Since(begin) }) }
		add("silent")
		unanswered, answered := add("unanswered"), add("answered")
		time.Sleep(10 * time.Second)
		unanswered.Active(false)
		answered.Active(true)
		answered.Active(false)
		time.Sleep(time.Hour)
		want := map[string]time.Duration{"silent": Unanswered, "unanswered": 10*time.Second + Unanswered, "answered": 10*time.Second + Answered}
		for name, at := range want {
			if ended[name] != at {
				t.Errorf("%s ends after %s, want %s", name, ended[name], at)
			}
		}
	})
}
