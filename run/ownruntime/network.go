package ownruntime

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host/doctor"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/sandbox/cni"
)

// restoreNetwork restores the firewall rules of running pods if another program has removed them.
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

// Network returns the network of the running embedded runtime; The result ok is false if the network is a chain
// of plugins, as in earlier releases, or if the embedded runtime is not running.
func Network(ctx context.Context, l embedded.Layout) (n cni.OwnNetwork, ok bool) {
	d := embedded.ReadDaemon(ctx, l)
	if !d.Alive() {
		return n, false
	}
	n = cni.OwnNetwork{Plugin: embedded.ReadNetworkPlugin(l, d.Digest), Config: l.NetworkFile()}
	return n, n.Plugin != ""
}

// collectNetwork removes addresses and firewall rules of sandboxes that the runtime does not have.
// If it cannot list the sandboxes, it removes nothing.
func (r *Runtime) collectNetwork(ctx context.Context) {
	network, ok := Network(ctx, r.layout)
	if !ok {
		return
	}
	err := func() error {
		client, err := r.client()
		if err != nil {
			return err
		}
		defer client.Close()
		ids, err := SandboxIDs(ctx, client)
		if err != nil {
			return err
		}
		unused, err := network.Unused(ctx, ids)
		if err != nil || len(unused) == 0 {
			return err
		}
		return network.Collect(ctx, ids)
	}()
	if err != nil && ctx.Err() == nil {
		r.Warn(problem.List{problem.WarningOf(err)})
	}
}

// SandboxIDs lists the IDs of all sandboxes of a runtime.
func SandboxIDs(ctx context.Context, client *cri.Client) ([]string, error) {
	sandboxes, err := client.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, &problem.Error{Kind: problem.Runtime, Object: "runtime", Op: "list sandboxes", Err: err}
	}
	var out []string
	for _, sb := range sandboxes {
		out = append(out, sb.GetId())
	}
	return out, nil
}

// collision describes which networks of this host overlap the subnet of the embedded runtime's
// pods, for example a VPN that was connected after the subnet had been chosen. It returns "" if
// none overlaps.
func (r *Runtime) collision(ctx context.Context) (string, error) {
	subnet, overlapping, err := embedded.ReadCollision(ctx, r.layout)
	return describeCollision(subnet, overlapping), err
}

// warnOfSubnets prints a warning if --pod-cidr does not apply to the running runtime.
func (r *Runtime) warnOfSubnets(ctx context.Context) {
	wanted, err := nodeconfig.ParsePodCIDR(r.settings.PodCIDR)
	if err != nil || len(wanted) == 0 {
		return // already checked when the settings were read
	}
	have, err := embedded.ReadSubnets(ctx, r.layout)
	if err != nil || slices.Equal(have, wanted) {
		return
	}
	r.Warn(problem.List{{
		Warning: true,
		Object:  "network " + r.layout.Bridge(),
		Message: fmt.Sprintf("the pod subnets are %s: --pod-cidr applies when the runtime starts", joined(have)),
		Hint:    "to change the subnets, delete all pods, run 'podrun runtime down', and then run this command again",
	}})
}

func joined(prefixes []netip.Prefix) string {
	var out []string
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	return strings.Join(out, ",")
}

// describeCollision describes a collision for collision. It is pure.
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

// warnOfCollision prints a collision unless it was the last one that was printed; said contains
// that one.
func (r *Runtime) warnOfCollision(ctx context.Context, said *string) {
	text, err := r.collision(ctx)
	if err != nil || text == *said {
		// The next call, or the next command, will read the routes again.
		return
	}
	if *said = text; text != "" {
		r.Warn(problem.List{{Warning: true, Object: "network " + r.layout.Bridge(), Message: text, Hint: doctor.CollisionFix}})
	}
}
