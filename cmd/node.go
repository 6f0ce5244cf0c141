package cmd

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/config"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/system"
	"github.com/podrun/podrun/run/ownruntime"
)

// Joiner connects podrun-node to a cluster.
type Joiner = cli.Joiner

// NodeMain is Main for podrun-node.
func NodeMain(parent context.Context, args []string, streams cli.Streams, version string, began time.Time, j cli.Joiner) int {
	if ownruntime.IsImageVerifier(os.Args) {
		return ownruntime.VerifyImage(parent, os.Args, streams.In, streams.Out)
	}
	a := cli.New(streams)
	defer a.FlushMessages()
	ctx, stop := a.CatchSignals(parent)
	defer stop()
	a.Began = began
	a.Version = version
	a.Joiner = j
	c := newNode(a)
	c.SetArgs(args)
	err := c.ExecuteContext(ctx)
	a.FinishTrace()
	if err == nil {
		return exit.OK
	}
	if code, ok := errors.AsType[cli.ExitStatus](err); ok {
		return int(code)
	}
	err = cli.WithCause(ctx, err)
	a.PrintErrors(err)
	return exit.Code(err)
}

// NodeCommand returns the command podrun-node with its flags and help, for hack/manual. The caller must not
// execute it.
func NodeCommand(j cli.Joiner) *cobra.Command {
	a := cli.New(cli.Streams{Out: io.Discard, Err: io.Discard})
	a.Joiner = j
	return newNode(a)
}

// newNode returns the command podrun-node: serve, with the flags of a.joiner.
func newNode(a *cli.App) *cobra.Command {
	c := system.NewServe(a)
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
	c.Version = a.Version
	c.CompletionOptions.DisableDefaultCmd = true
	prepareRoot(a, c)
	a.Joiner.AddFlags(c.Flags())
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		a.Settings.Ctx = c.Context()
		a.Settings.For = config.UseOf(c)
		a.Holder = holderName(c)
		if err := a.Settings.SetFromEnv(); err != nil {
			return err
		}
		if err := a.StartTrace(c); err != nil {
			return err
		}
		return a.UseSettings(c)
	}
	listen := c.Flags().Lookup("listen")
	listen.DefValue, listen.Usage = nodeListen, "TCP `address` of the HTTPS API, which the API server uses; without certificate flags, podrun-node generates a server certificate, and accepts clients with a certificate of the CA in the kubeconfig"
	// The value is valid.
	_ = listen.Value.Set(nodeListen)
	return c
}

// nodeListen is the default of --listen: the kubelet's port.
const nodeListen = "0.0.0.0:10250"
