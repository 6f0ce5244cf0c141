package serve

import (
	"path/filepath"
	"time"
)

// outageFor makes the runtime unavailable for a while.
func (s *simulation) outageFor(d time.Duration) {
	if s.ends != nil {
		return
	}
	end := s.Outage()
	s.model.goAway()
	s.until = time.Now().Add(d)
	s.ends = func() {
		s.ends = nil
		end()
		s.model.back()
		s.note("outage ends")
	}
}

// tick waits for one second, and judges the state.
func (s *simulation) tick() {
	time.Sleep(time.Second)
	if s.ends != nil && !time.Now().Before(s.until) {
		s.ends()
	}
	s.judge()
}

// restartAfter stops the supervisor, and starts it again after the given time.
func (s *simulation) restartAfter(d time.Duration) {
	s.model.goAway()
	s.End()
	s.Files.Forget()
	time.Sleep(d)
	s.Start()
	s.model.back()
}

// boot reboots the host.
func (s *simulation) boot() {
	s.model.goAway()
	s.End()
	s.Files.Forget()
	for _, sl := range s.slots {
		if sl.here {
			s.model.change(sl.name, "boot", nil)
		}
	}
	s.Runtime.Restart()
	time.Sleep(30 * time.Second)
	s.Start()
	s.model.back()
}

func (s *simulation) reach(dir string) {
	if !s.Files.Reachable(dir) {
		s.Files.Reach(dir, true)
		for _, sl := range s.slots {
			if sl.path != "" && filepath.Dir(sl.path) == dir {
				sl.broken = false
			}
		}
	}
}

// toggle makes a directory unreachable, or reachable again.
func (s *simulation) toggle(dir string) {
	if s.Files.Reachable(dir) {
		for _, p := range s.model.pods {
			// If a file was removed from a directory that is now unreachable, the file may still count
			// as existing. If a file was added during an outage, a serve process that starts during the
			// outage does not have its content.
			unsettled := s.ends != nil || !s.model.quiet() || time.Since(p.since) < 2*simChange
			if n := len(p.changes); unsettled && (!p.wanted || n > 0 && p.changes[n-1].kind == "add") {
				return
			}
		}
		s.Files.Reach(dir, false)
		return
	}
	s.reach(dir)
}
