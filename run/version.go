package run

import (
	"context"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/run/node"
)

// RuntimeVersion reads the runtime's name and versions. It sets the endpoint even if it returns
// an error, which is of kind Runtime.
func RuntimeVersion(ctx context.Context, n *node.Node) (host.Runtime, error) {
	v, err := discover.Reach(ctx, n.Client)
	return host.Runtime{
		Endpoint: n.Client.Endpoint(), Name: v.GetRuntimeName(),
		Version: v.GetRuntimeVersion(), APIVersion: v.GetRuntimeApiVersion(),
	}, err
}
