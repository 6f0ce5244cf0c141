package prepare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// planStartOrder sets the start order from the pod's annotation or, without it, from the settings.
func (p *Plan) planStartOrder(s nodeconfig.Settings) problem.List {
	order := cmp.Or(p.Pod.Annotations[identity.AnnotationStartOrder], s.StartOrder)
	p.ParallelStart = order == nodeconfig.StartParallel
	if order == "" || slices.Contains(nodeconfig.StartOrders, order) {
		return nil
	}
	return problem.List{{Field: "metadata.annotations[" + identity.AnnotationStartOrder + "]", Reason: "StartOrder",
		Message: fmt.Sprintf("%q is not %s", order, strings.Join(nodeconfig.StartOrders, " or "))}}
}
