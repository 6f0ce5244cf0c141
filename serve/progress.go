package serve

import (
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve/supervisor"
)

// reportProgress returns a function that passes the state of the supervisor to Options.Progress, or, if podrun itself makes
// no progress, warns instead. It returns nil if the option is not set.
func reportProgress(e *run.Node, o Options) func(supervisor.Summary) {
	if o.Progress == nil {
		return nil
	}
	return func(s supervisor.Summary) {
		line, stuck := progress(s, o.Runtime())
		if stuck != nil {
			e.WarnOnce(*stuck)
			return
		}
		o.Progress(line)
	}
}

// progress returns the line for the service manager, or, if podrun itself makes no progress, the problem:
// the service manager then restarts podrun. A runtime that cannot be used is not such a problem.
func progress(s supervisor.Summary, runtime RuntimeState) (line string, stuck *problem.Problem) {
	switch {
	case len(s.Stuck) > 0:
		return "", &problem.Problem{Object: "pod " + s.Stuck[0], Message: "podrun has made no progress on it for 10 minutes"}
	case s.Late != "":
		return "", &problem.Problem{Object: "podrun serve", Message: s.Late + " has made no progress for 10 minutes"}
	}
	line = s.String()
	if runtime.Problem != "" {
		line += "; the container runtime does not run: " + runtime.Problem
	}
	return line, nil
}
