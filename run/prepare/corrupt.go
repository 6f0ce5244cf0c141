package prepare

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// corruptState returns warnings about state files that podrun cannot use, which planning ignores. podrun does not
// refuse a pod because of them. corruptState does not warn about pods that the command replaces
// because their checkpoints are corrupt.
func (in Input) corruptState() problem.List {
	var out problem.List
	for _, what := range in.Facts.Unreadable {
		out = append(out, problem.Problem{Message: "ignored: " + what, Warning: true})
	}
	for _, p := range in.Facts.Pods {
		replaced := in.ReplaceCorrupt && slices.ContainsFunc(in.Existing, func(h ExistingPod) bool { return h.ID.UID == p.UID && h.Corrupt })
		if !replaced && p.Broken != "" && p.RootDir == "" {
			id := identity.Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
			out = append(out, problem.Problem{Object: identity.ObjectName(id), Message: "podrun does not count its requests and ports: " + p.Broken,
				Hint: "if the file is lost, " + identity.DeleteHint(id), Warning: true})
		}
	}
	return out
}

// definedBy returns the pods that pod replaces. At least one of them has an unreadable checkpoint. If
// podrun may replace corrupt pods, definedBy gives them the definition of pod, because this is the
// known definition that is most likely to have the same hooks and grace period. The others remain
// broken, and podrun refuses to replace them (brokenProblems).
func (in Input) definedBy(pod *corev1.Pod, here []ExistingPod) []ExistingPod {
	out := slices.Clone(here)
	for i := range out {
		if h := &out[i]; h.Corrupt && in.ReplaceCorrupt {
			h.Pod = pod
			h.Broken = nil
		}
	}
	return out
}

// brokenProblems refuses to replace a pod whose checkpoint podrun cannot use. The grace period and the
// preStop hooks of that pod are unknown, so the user has to decide.
func (t Target) brokenProblems() problem.List {
	var out problem.List
	for _, h := range t.Old {
		if h.Broken != nil {
			p := problem.WarningOf(h.Broken)
			reason := event.CheckpointUnreadable
			if h.Corrupt {
				reason = event.CheckpointCorrupt
			}
			out = append(out, problem.Problem{Reason: reason, Message: p.Message, Hint: p.Hint, Kind: problem.Runtime})
		}
	}
	return out
}
