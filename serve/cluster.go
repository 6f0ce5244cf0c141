package serve

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/serve/nodeapi"
	"github.com/podrun/podrun/serve/source"
	"github.com/podrun/podrun/serve/supervisor"
)

// Cluster is a cluster of which this host is a node. Its API server defines pods, and receives their
// status. Package serve/cluster implements it; this package does not import that one, because podrun does
// not link a client of the API server. Its methods must not block, except Run.
type Cluster interface {
	supervisor.Reports
	// Attach is called before all other methods.
	Attach(ClusterNode)
	// Merge adds the pods of the API server to those of the manifest directories.
	Merge(*source.Snapshot, *source.Desired) (*source.Snapshot, *source.Desired)
	// Note receives the events of all pods.
	Note(event.Event)
	// Status receives a supervised pod with its status after each step of its worker.
	Status(*corev1.Pod)
	// Services returns the Services of a namespace.
	Services(namespace string) []*corev1.Service
	// Authorize decides about clients of the HTTP API that have a certificate.
	Authorize(context.Context, nodeapi.Access) error
	// LocalName returns the name on this host of a pod to which a request of the API server refers.
	LocalName(namespace, pod string) string
	// Run exchanges data with the API server until ctx ends.
	Run(ctx context.Context)
}

// ClusterNode is what a Cluster can use of this host.
type ClusterNode struct {
	Engine *run.Node
	// Changed makes the supervisor read its sources again.
	Changed func()
	// RuntimeDown returns why the container runtime cannot be used; "" if it can.
	RuntimeDown func() string
}

// attach connects a cluster, which may be nil, to a supervisor's node, and returns it.
func attach(c Cluster, e *run.Node, reread func(), a *api) Cluster {
	if c != nil {
		c.Attach(ClusterNode{Engine: e, RuntimeDown: a.runtimeDown, Changed: reread})
	}
	return c
}

// noteCluster makes a node report events and statuses to a cluster.
func noteCluster(c Cluster, n *node.Node) {
	emit := n.Emit
	n.Emit = func(e event.Event) {
		c.Note(e)
		if emit != nil {
			emit(e)
		}
	}
	n.Observer.Status = c.Status
	n.ClusterServices = c.Services
}

// runtimeDown returns why the container runtime cannot be used; "" if it can.
func (a *api) runtimeDown() string {
	if state := a.runtime(); state.Problem != "" {
		return state.Problem
	}
	s, err := a.supervisor()
	if err != nil {
		return err.Error()
	}
	if down := s.Summary().Down; !down.IsZero() {
		return "the container runtime has not answered since " + down.Format(time.RFC3339)
	}
	return ""
}
