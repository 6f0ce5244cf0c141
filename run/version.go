package run

import (
	"context"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
)

// RuntimeVersion asks the runtime who it is.
func (e *Engine) RuntimeVersion(ctx context.Context) (host.Runtime, error) {
	v, err := discover.Reach(ctx, e.Client)
	return host.Runtime{
		Endpoint: e.Client.Endpoint(), Name: v.GetRuntimeName(),
		Version: v.GetRuntimeVersion(), APIVersion: v.GetRuntimeApiVersion(),
	}, err
}
