package prepare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/podrun/podrun/container"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// planStartOrder sets the start order from the pod's annotation or, if the pod has none, from the
// settings.
func (p *Plan) planStartOrder(s nodeconfig.Settings) problem.List {
	p.StartOrder = cmp.Or(p.Pod.Annotations[identity.AnnotationStartOrder], s.StartOrder, nodeconfig.StartInOrder)
	if slices.Contains(nodeconfig.StartOrders, p.StartOrder) {
		return nil
	}
	return problem.List{{Field: "metadata.annotations[" + identity.AnnotationStartOrder + "]", Reason: "StartOrder",
		Message: fmt.Sprintf("%q is not kubelet, strict or parallel", p.StartOrder)}}
}

// CreatesAhead reports whether podrun creates a container early: while the previous app
// container starts, or while the previous init container runs.
func (p *Plan) CreatesAhead(previous, name string) bool {
	before, c := p.Container(previous), p.Container(name)
	return before != nil && c != nil && p.createsAhead(before, c)
}

// createsAhead implements CreatesAhead for two containers of the plan. It returns false for CRI-O
// because, unlike containerd, CRI-O prepares a container's process and mounts when it creates the
// container.
func (p *Plan) createsAhead(before, c *container.Plan) bool {
	return p.StartOrder == nodeconfig.StartInOrder && p.Runtime == host.Containerd && c.CreatesAfter(*before)
}

// InitAhead returns the names of the init containers that podrun creates while the previous init
// container runs.
func (p *Plan) InitAhead() map[string]bool {
	out := map[string]bool{}
	for i := 1; i < len(p.Containers) && p.Containers[i].Kind != container.App; i++ {
		if p.createsAhead(&p.Containers[i-1], &p.Containers[i]) {
			out[p.Containers[i].Name] = true
		}
	}
	return out
}
