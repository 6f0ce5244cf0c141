package run

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host/doctor"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/sandbox/cni"
)

// restoreNetwork restores firewall rules of running pods that another program has removed.
func (r *Runtime) restoreNetwork(ctx context.Context) {
	n, err := cni.Restore(ctx, r.layout.RootDir, r.layout.Bridge())
	if err != nil && ctx.Err() == nil {
		r.Warn(problem.List{problem.WarningOf(err)})
	}
	if n > 0 {
		r.Warn(problem.List{{Warning: true, Object: "network " + r.layout.Bridge(),
			Message: fmt.Sprintf("another program removed the firewall rules of %d sandboxes: podrun restored them", n)}})
	}
}

// collision describes which networks of this host overlap the subnet of the embedded runtime's
// pods, for example a VPN that was connected after the subnet had been chosen. The description is
// empty if no network does.
func (r *Runtime) collision(ctx context.Context) (string, error) {
	subnet, overlapping, err := embedded.ReadCollision(ctx, r.layout)
	return describeCollision(subnet, overlapping), err
}

// describeCollision is pure.
func describeCollision(subnet netip.Prefix, overlapping []netip.Prefix) string {
	if len(overlapping) == 0 {
		return ""
	}
	var names []string
	for _, p := range overlapping[:min(3, len(overlapping))] {
		names = append(names, p.String())
	}
	return fmt.Sprintf("the pod subnet %s overlaps routes or addresses of this host (%s): some hosts or pods cannot be reached", subnet, strings.Join(names, ", "))
}

// warnOfCollision prints a collision once; said is the last one printed.
func (r *Runtime) warnOfCollision(ctx context.Context, said *string) {
	text, err := r.collision(ctx)
	if err != nil || text == *said {
		return // the next call, or the next command, reads the routes again
	}
	if *said = text; text != "" {
		r.Warn(problem.List{{Warning: true, Object: "network " + r.layout.Bridge(), Message: text, Hint: doctor.CollisionFix}})
	}
}
