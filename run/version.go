package run

import (
	"context"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
)

// RuntimeVersion reads the runtime's name and versions. It sets the endpoint even if it returns
// an error, which is of kind Runtime.
func (e *Engine) RuntimeVersion(ctx context.Context) (host.Runtime, error) {
	v, err := discover.Reach(ctx, e.Client)
	return host.Runtime{
		Endpoint: e.Client.Endpoint(), Name: v.GetRuntimeName(),
		Version: v.GetRuntimeVersion(), APIVersion: v.GetRuntimeApiVersion(),
	}, err
}
