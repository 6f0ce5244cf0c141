package serve

import (
	"context"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/serve/nodeapi"
)

// exec requests a URL of the runtime for running a command in a container.
func (a *api) exec(ctx context.Context, r nodeapi.StreamRequest) (string, error) {
	return access.ExecURL(ctx, a.engine, r.Namespace, r.Pod, r.Container, r.Command, kindsOf(r))
}

// attach requests a URL for a container's main process.
func (a *api) attach(ctx context.Context, r nodeapi.StreamRequest) (string, error) {
	return access.AttachURL(ctx, a.engine, r.Namespace, r.Pod, r.Container, kindsOf(r))
}

// portForward requests a URL for the ports of a pod.
func (a *api) portForward(ctx context.Context, r nodeapi.StreamRequest) (string, error) {
	return access.PortForwardURL(ctx, a.engine, r.Namespace, r.Pod)
}

func kindsOf(r nodeapi.StreamRequest) cri.StreamKinds {
	return cri.StreamKinds{Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, TTY: r.TTY}
}
