package run

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lookup"
)

// ExecURL requests from the runtime a URL for running a command in a container. The errors are
// those of ExecTarget and Exec.
func (e *Engine) ExecURL(ctx context.Context, namespace, name, container string, command []string, kinds cri.StreamKinds) (string, error) {
	t, err := e.ExecTarget(ctx, namespace, name, container)
	if err != nil {
		return "", err
	}
	url, err := e.Client.ExecURL(ctx, t.ID, command, kinds)
	if err != nil {
		_, err = e.fault(ctx, t, "exec", err)
	}
	return url, err
}

// AttachURL requests from the runtime a URL for the streams of a container's main process.
func (e *Engine) AttachURL(ctx context.Context, namespace, name, container string, kinds cri.StreamKinds) (string, error) {
	t, err := e.ExecTarget(ctx, namespace, name, container)
	if err != nil {
		return "", err
	}
	url, err := e.Client.AttachURL(ctx, t.ID, kinds)
	if err != nil {
		_, err = e.fault(ctx, t, "attach", err)
	}
	return url, err
}

// PortForwardURL requests from the runtime a URL for forwarding connections to ports of a pod. The
// error is of kind Failed if the sandbox is not running.
func (e *Engine) PortForwardURL(ctx context.Context, namespace, name string) (string, error) {
	seen, err := lookup.ObservePod(ctx, &e.Node, namespace, name)
	if err != nil {
		return "", err
	}
	box := seen.Obs.Sandbox()
	if box == nil || !box.Ready {
		return "", noSandbox(seen.ID)
	}
	url, err := e.Client.PortForwardURL(ctx, box.ID)
	switch {
	case status.Code(err) == codes.NotFound:
		return "", noSandbox(seen.ID)
	case err != nil:
		err = &problem.Error{Kind: problem.Runtime, Object: "pod " + seen.ID.String(), Op: "forward ports", Err: err}
	}
	return url, err
}
