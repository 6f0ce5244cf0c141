package node

import (
	"context"
	"slices"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/prepare"
)

// sandboxImage returns a warning if the runtime does not have its sandbox image: the runtime must
// then pull the image before the first pod can start, and this fails on a host without access to a
// registry.
func (n *Node) sandboxImage(ctx context.Context, targets []prepare.Target) problem.List {
	at := slices.IndexFunc(targets, func(t prepare.Target) bool {
		return t.Refused() == nil && (t.Change == prepare.ChangeNew || t.Change == prepare.ChangeReplace)
	})
	if at < 0 {
		return nil
	}
	runtime := targets[at].Plan.Facts.Runtime
	image := discover.SandboxImage(ctx, n.Client, runtime)
	if image.Present == nil || *image.Present {
		return nil
	}
	what := "the runtime's sandbox (pause) image"
	if image.Name != "" {
		what += " " + image.Name
	}
	return problem.List{{
		Warning: true,
		Reason:  "SandboxImage",
		Message: what + " was not found on this host: the runtime will pull it before any pod can start",
		Hint:    "if this host has no registry, " + runtime.LoadImage() + ", or set " + runtime.SandboxKey() + " to an image that is present on this host",
	}}
}
