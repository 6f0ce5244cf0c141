package access

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
)

// ExecURL requests from the runtime a URL for running a command in a container. The errors are
// those of ExecTarget and Exec.
func ExecURL(ctx context.Context, n *node.Node, namespace, name, container string, command []string, kinds cri.StreamKinds) (string, error) {
	t, err := Find(ctx, n, namespace, name, container)
	if err != nil {
		return "", err
	}
	url, err := n.Client.Streaming.ExecURL(ctx, t.ID, command, kinds)
	if err != nil {
		_, err = fault(ctx, n, t, "exec", err)
	}
	return url, err
}

// AttachURL requests from the runtime a URL for the streams of a container's main process.
func AttachURL(ctx context.Context, n *node.Node, namespace, name, container string, kinds cri.StreamKinds) (string, error) {
	t, err := Find(ctx, n, namespace, name, container)
	if err != nil {
		return "", err
	}
	url, err := n.Client.Streaming.AttachURL(ctx, t.ID, kinds)
	if err != nil {
		_, err = fault(ctx, n, t, "attach", err)
	}
	return url, err
}

// PortForwardURL requests from the runtime a URL for forwarding connections to ports of a pod. The
// error is of kind Failed if the sandbox is not running.
func PortForwardURL(ctx context.Context, n *node.Node, namespace, name string) (string, error) {
	seen, err := lookup.ObservePod(ctx, n, namespace, name)
	if err != nil {
		return "", err
	}
	box := seen.Obs.Sandbox()
	if box == nil || !box.Ready {
		return "", noSandbox(seen.ID)
	}
	url, err := n.Client.Streaming.PortForwardURL(ctx, box.ID)
	switch {
	case status.Code(err) == codes.NotFound:
		return "", noSandbox(seen.ID)
	case err != nil:
		err = &problem.Error{Kind: problem.Runtime, Object: "pod " + seen.ID.String(), Op: "forward ports", Err: err}
	}
	return url, err
}
