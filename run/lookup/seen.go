package lookup

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
)

// Seen is a pod on this host, with its observed state.
type Seen struct {
	ID  identity.Pod
	Pod *corev1.Pod // reconstructed from the runtime's data if there is no checkpoint
	Obs *lifecycle.Observed
}

// ObservePod finds one pod and observes it. The observation omits containers that podrun created before their
// turn. The error is of kind Failed if the pod is not found, and Runtime if the runtime does not respond.
func ObservePod(ctx context.Context, n *node.Node, namespace, name string) (Seen, error) {
	if _, err := discover.Reach(ctx, n.Client); err != nil {
		return Seen{}, err
	}
	known, err := Find(ctx, n, Selector{Namespace: namespace, Names: []string{name}})
	if err != nil {
		return Seen{}, err
	}
	if len(known) == 0 {
		return Seen{}, &problem.Error{Kind: problem.Failed, Object: "pod " + namespace + "/" + name,
			Err: problem.ErrNotFound, Hint: "run 'podrun get -A' to list all pods"}
	}
	s := Seen{ID: known[0].ID, Pod: known[0].Pod}
	if s.Obs, err = n.Observe(ctx, s.ID.UID); err != nil {
		return Seen{}, pod.RuntimeError(s.ID, err)
	}
	if s.Pod == nil {
		s.Pod = observe.WithoutCheckpoint(s.ID, s.Obs)
	}
	s.Obs = s.Obs.WithoutCreatedAhead(s.Pod)
	return s, nil
}
