package run

import (
	"fmt"
	"slices"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// A batch contains the replicas of one workload that podrun replaces at the same time.
type batch struct {
	workload string // the empty string for pods that are not replicas
	pods     []Known
}

// rollOut divides the pods of a change into rounds, as the controllers of Deployments and StatefulSets
// do: a round has at most as many replicas of a workload as may be unavailable, and begins when those
// of the previous round are ready. A StatefulSet's pod with the highest index comes first. The last
// round contains the last replicas of each workload, and all other pods.
func rollOut(pods []Known) [][]batch {
	groups := map[string][]Known{}
	var names []string
	for _, k := range pods {
		name := ""
		if k.Definition.Honours() {
			name = k.Definition.Kind + " " + identity.Pod{Namespace: k.ID.Namespace, Name: k.Definition.WorkloadName(k.ID.Name)}.String()
		}
		if _, known := groups[name]; !known {
			names = append(names, name)
		}
		groups[name] = append(groups[name], k)
	}
	var all [][]batch // of each workload
	longest := 0
	for _, name := range names {
		list := []batch{{name, groups[name]}}
		if name != "" {
			list = nil
			for part := range slices.Chunk(inOrder(groups[name]), groups[name][0].Definition.MaxUnavailable(len(groups[name]))) {
				list = append(list, batch{name, part})
			}
		}
		all, longest = append(all, list), max(longest, len(list))
	}
	rounds := make([][]batch, longest)
	for _, list := range all {
		for i, b := range list {
			at := longest - len(list) + i
			rounds[at] = append(rounds[at], b)
		}
	}
	return rounds
}

// inOrder returns the replicas of a workload in the order in which podrun replaces them.
func inOrder(pods []Known) []Known {
	definition := pods[0].Definition
	index := func(k Known) int {
		n, _ := manifest.ReplicaIndex(k.Definition.WorkloadName(k.ID.Name), k.ID.Name)
		return n
	}
	out := slices.Clone(pods)
	slices.SortStableFunc(out, func(a, b Known) int {
		if definition.Kind == "StatefulSet" {
			a, b = b, a
		}
		return index(a) - index(b)
	})
	return out
}

// notRolledOut returns the error for a replica that is not changed, because another one has failed.
func notRolledOut(id, failed identity.Pod) error {
	return &problem.Error{Kind: problem.Failed, Object: "pod " + id.String(),
		Err:  fmt.Errorf("was not changed, because pod %s has failed to become ready", failed),
		Hint: "correct the definition and run the command again, or run 'podrun rollout undo " + failed.Name + " -n " + failed.Namespace + "'"}
}
