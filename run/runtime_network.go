package run

import (
	"context"
	"fmt"

	"github.com/podrun/podrun/cni"
	"github.com/podrun/podrun/problem"
)

// restoreNetwork makes firewall rules of running pods again that another program has
// removed.
func (r *Runtime) restoreNetwork(ctx context.Context) {
	n, err := cni.Restore(ctx, r.layout.RootDir, r.layout.Bridge())
	if err != nil && ctx.Err() == nil {
		r.Warn(problem.List{problem.WarningOf(err)})
	}
	if n > 0 {
		r.Warn(problem.List{{Warning: true, Object: "network " + r.layout.Bridge(),
			Message: fmt.Sprintf("firewall rules of %d sandboxes were missing, as another program has changed the host's: podrun has made them again", n)}})
	}
}
