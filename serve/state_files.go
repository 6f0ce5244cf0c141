package serve

import (
	"context"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve/nodeapi"
)

// stateFilesEvery is the interval at which podrun examines the state files that its pods share.
const stateFilesEvery = 30 * time.Second

// stateFiles knows which state files of the host podrun cannot use, for /readyz. It does not examine the files of
// pods: a pod's status shows those.
type stateFiles struct {
	engine *run.Node

	mu     sync.Mutex
	faults []*statefile.Fault
}

// run examines the files until ctx ends.
func (s *stateFiles) run(ctx context.Context) {
	for {
		s.examine(ctx)
		if wait.Sleep(ctx, wait.Period(stateFilesEvery)) != nil {
			return
		}
	}
}

func (s *stateFiles) examine(ctx context.Context) {
	shared := func(scope statefile.Scope) bool { return scope != statefile.OfPod && scope != statefile.Image }
	var faults []*statefile.Fault
	for _, f := range statefile.Scan(ctx, s.engine.Layout(), shared) {
		if !s.setAside(f) {
			faults = append(faults, f)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = faults
}

// setAside sets a corrupt file of the host aside that counts as absent anyway, because podrun writes some of
// these files only when their content changes.
func (s *stateFiles) setAside(f *statefile.Fault) bool {
	if f.Scope != statefile.Host || f.State != statefile.Corrupt || f.Action != statefile.Report && f.Action != statefile.Ignore {
		return false
	}
	warning := f.Warning()
	err := statefile.SetAside(f.Path)
	if err == nil {
		warning.Hint = "podrun has set the file aside as " + statefile.Aside(f.Path)
	}
	s.engine.WarnOnce(warning)
	if err != nil {
		s.engine.WarnOnce(problem.WarningOf(err))
	}
	return err == nil
}

// checks returns a check for each file that podrun cannot use. A file of a newer podrun that all pods share is only a
// note: it remains as long as this podrun is used.
func (s *stateFiles) checks() (out []nodeapi.Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		c := nodeapi.Check{Name: "state file", Reason: f.Error() + "; " + f.Effect()}
		if f.State == statefile.Newer && f.Scope == statefile.Host {
			c.Reason, c.Note = "", c.Reason
		}
		out = append(out, c)
	}
	return out
}
