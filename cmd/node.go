package cmd

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/config"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/serve"
)

// Joiner connects podrun-node to a cluster. Its implementation links a client of the API server, which
// podrun does not.
type Joiner interface {
	AddFlags(*pflag.FlagSet)
	// Join prepares the connection, and completes the options of the HTTPS API.
	Join(ctx context.Context, s nodeconfig.Settings, warn func(problem.List), api *serve.APIOptions) (serve.Cluster, error)
}

// hostTaint is the taint of a new node if --register-with-taints is not set. The scheduler then
// binds only pods that tolerate it to the host, because podrun does not support everything that a
// kubelet supports.
var hostTaint = corev1.Taint{Key: "podrun.dev/host", Value: "true", Effect: corev1.TaintEffectNoSchedule}

// NodeMain is Main for podrun-node.
func NodeMain(parent context.Context, args []string, streams Streams, version string, began time.Time, j Joiner) int {
	if ownruntime.IsImageVerifier(os.Args) {
		return ownruntime.VerifyImage(parent, os.Args, streams.In, streams.Out)
	}
	a := newApp(streams)
	defer a.flushMessages()
	ctx, stop := a.catchSignals(parent)
	defer stop()
	a.began, a.version, a.joiner = began, version, j
	c := newNode(a)
	c.SetArgs(args)
	err := c.ExecuteContext(ctx)
	a.finishTrace()
	if err == nil {
		return exit.OK
	}
	if code, ok := errors.AsType[exitStatus](err); ok {
		return int(code)
	}
	err = withCause(ctx, err)
	a.printErrors(err)
	return exit.Code(err)
}

// NodeCommand returns the command podrun-node with its flags and help, for hack/manual. The caller must not
// execute it.
func NodeCommand(j Joiner) *cobra.Command {
	a := newApp(Streams{Out: io.Discard, Err: io.Discard})
	a.joiner = j
	return newNode(a)
}

// newNode returns the command podrun-node: serve, with the flags of a.joiner.
func newNode(a *app) *cobra.Command {
	c := newServe(a)
	for _, sub := range slices.Clone(c.Commands()) {
		c.RemoveCommand(sub)
	}
	c.Use = "podrun-node [DIR|FILE|URL...]"
	c.Short = "Make this host a node of a cluster"
	c.Long = `Make this host a node of an existing cluster, and run the pods that are bound to this
node. podrun-node registers the node, renews its lease, and reports the status and
the events of pods, as a kubelet does. It also works like 'podrun serve': it keeps
the pods of manifest directories running, which the cluster shows as mirror pods, and
supervises the pods that 'podrun apply' has started.

Use a kubelet's kubeconfig. Its user must be system:node:NAME, where NAME is this
host's name or the value of --hostname-override. podrun-node renews the client
certificate, as the kubelet does, if kubeadm has created the kubeconfig.

Unless --register-with-taints is set, podrun-node registers a new node with the taint
podrun.dev/host=true:NoSchedule. The scheduler then binds only pods that tolerate this
taint to the node.

If the API server does not answer, pods keep running. After a boot, podrun-node starts
the pods without waiting for the API server.`
	c.Example = `  podrun-node --kubeconfig /etc/kubernetes/kubelet.conf
  podrun-node --kubeconfig kubelet.conf --register-with-taints= --node-labels site=7`
	c.Version = a.version
	c.CompletionOptions.DisableDefaultCmd = true
	a.prepareRoot(c)
	a.joiner.AddFlags(c.Flags())
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		a.settings.Ctx, a.settings.For, a.holder = c.Context(), config.UseOf(c), holderName(c)
		if err := a.settings.SetFromEnv(); err != nil {
			return err
		}
		if err := a.startTrace(c); err != nil {
			return err
		}
		return a.useSettings(c)
	}
	listen := c.Flags().Lookup("listen")
	listen.DefValue, listen.Usage = nodeListen, "TCP `address` of the HTTPS API, which the API server uses; without certificate flags, podrun-node generates a server certificate, and accepts clients with a certificate of the CA in the kubeconfig"
	// The value is valid.
	_ = listen.Value.Set(nodeListen)
	return c
}

// nodeListen is the default of --listen: the kubelet's port.
const nodeListen = "0.0.0.0:10250"

// join connects to the cluster, if this is podrun-node.
func (a *app) join(c *cobra.Command, r *renderer, s nodeconfig.Settings, api *serve.APIOptions) (serve.Cluster, error) {
	if a.joiner == nil {
		return nil, nil
	}
	if s.RegisterWithTaints == nil && !c.Flags().Changed("register-with-taints") {
		s.RegisterWithTaints = []corev1.Taint{hostTaint}
	}
	return a.joiner.Join(c.Context(), s, r.warn, api)
}
