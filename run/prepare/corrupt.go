package prepare

import (
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
)

// corruptState warns of state files that count for nothing in the verdict. They
// refuse no pod.
func corruptState(facts host.Facts) problem.List {
	var out problem.List
	for _, what := range facts.Unreadable {
		out = append(out, problem.Problem{Message: "corrupt state file, ignored: " + what, Warning: true})
	}
	for _, p := range facts.Pods {
		if p.Broken != "" && p.RootDir == "" {
			id := identity.Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
			out = append(out, problem.Problem{Object: identity.ObjectOf(id), Message: "its checkpoint is corrupt, so its requests and ports do not count: " + p.Broken,
				Hint: identity.DeleteHint(id), Warning: true})
		}
	}
	return out
}

// brokenProblems refuses to replace a pod whose checkpoint is corrupt: neither its
// grace period nor its preStop hooks are known, so the user has to decide.
func (t Target) brokenProblems() problem.List {
	var out problem.List
	for _, h := range t.Old {
		if h.Broken != nil {
			p := problem.WarningOf(h.Broken)
			out = append(out, problem.Problem{Reason: "CheckpointCorrupt", Message: p.Message, Hint: p.Hint, Kind: problem.Runtime})
		}
	}
	return out
}
