package system

import (
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/serve"
)

// hostTaint is the taint of a new node if --register-with-taints is not set. The scheduler then
// binds only pods that tolerate it to the host, because podrun does not support everything that a
// kubelet supports.
var hostTaint = corev1.Taint{Key: "podrun.dev/host", Value: "true", Effect: corev1.TaintEffectNoSchedule}

// join connects to the cluster, if this is podrun-node.
func join(a *cli.App, c *cobra.Command, r *cli.Renderer, s nodeconfig.Settings, api *serve.APIOptions) (serve.Cluster, error) {
	if a.Joiner == nil {
		return nil, nil
	}
	if s.RegisterWithTaints == nil && !c.Flags().Changed("register-with-taints") {
		s.RegisterWithTaints = []corev1.Taint{hostTaint}
	}
	return a.Joiner.Join(c.Context(), s, r.Warn, api)
}
