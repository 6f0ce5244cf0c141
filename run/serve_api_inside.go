package run

import (
	"context"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/serve/nodeapi"
)

// exec finds the container of a request, and requests a URL for running the command.
func (a *api) exec(ctx context.Context, r nodeapi.StreamRequest) (string, error) {
	t, err := a.engine.ExecTarget(ctx, r.Namespace, r.Pod, r.Container)
	if err != nil {
		return "", err
	}
	url, err := a.engine.Client.ExecURL(ctx, t.ID, r.Command, kindsOf(r))
	if err != nil {
		_, err = t.fault("exec", err)
	}
	return url, err
}

// attach is for a container's own process what exec is for a command.
func (a *api) attach(ctx context.Context, r nodeapi.StreamRequest) (string, error) {
	t, err := a.engine.ExecTarget(ctx, r.Namespace, r.Pod, r.Container)
	if err != nil {
		return "", err
	}
	url, err := a.engine.Client.AttachURL(ctx, t.ID, kindsOf(r))
	if err != nil {
		_, err = t.fault("attach", err)
	}
	return url, err
}

// portForward finds the pod's sandbox, and requests a URL for reaching its ports.
func (a *api) portForward(ctx context.Context, r nodeapi.StreamRequest) (string, error) {
	seen, err := a.engine.seePod(ctx, r.Namespace, r.Pod)
	if err != nil {
		return "", err
	}
	box := seen.obs.Sandbox()
	if box == nil || !box.Ready {
		return "", noSandbox(seen.id)
	}
	url, err := a.engine.Client.PortForwardURL(ctx, box.ID)
	if err != nil {
		err = &problem.Error{Kind: problem.Runtime, Object: "pod " + seen.id.String(), Op: "forward ports", Err: err}
	}
	return url, err
}

func kindsOf(r nodeapi.StreamRequest) cri.StreamKinds {
	return cri.StreamKinds{Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, TTY: r.TTY}
}
