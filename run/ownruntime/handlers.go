package ownruntime

import (
	"context"
	"strings"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/internal/problem"
)

// reconfigures reports whether a command must restart the running containerd because an OCI runtime that
// has since been installed on this host would become a handler. Containers keep running during the
// restart, but calls to containerd fail for a moment. So if there are pods, only `podrun runtime up`
// restarts containerd; other commands refuse a pod that requires the new handler, with a hint.
func reconfigures(ctx context.Context, r *Runtime) bool {
	found, err := embedded.ReadNewHandlers(ctx, r.layout)
	differs := policyDiffers(ctx, r)
	if err != nil || len(found) == 0 && !differs || !embedded.ReadDaemon(ctx, r.layout).Alive() {
		return false
	}
	if r.Attended {
		return true
	}
	pods, err := r.HasPods(ctx)
	return err == nil && !pods
}

// warnOfHandlers prints a warning about handlers that containerd does not offer until it is
// restarted.
func warnOfHandlers(ctx context.Context, r *Runtime) {
	if policyDiffers(ctx, r) {
		r.Warn(problem.List{{
			Warning: true,
			Object:  "embedded runtime",
			Message: "was started before imagePolicy was changed: until it is restarted, containerd does not apply the policy to pulls; podrun applies it before a container uses an image",
			Hint:    "run 'podrun runtime up', which restarts containerd; the containers keep running",
		}})
	}
	found, err := embedded.ReadNewHandlers(ctx, r.layout)
	if err != nil || len(found) == 0 {
		return // podrun names the handler when it refuses a pod that requires it
	}
	var names []string
	for _, h := range found {
		names = append(names, h.String())
	}
	r.Warn(problem.List{{
		Warning: true,
		Object:  "embedded runtime",
		Message: "was started before these OCI runtimes were installed, and cannot use them yet: " + strings.Join(names, ", "),
		Hint:    "run 'podrun runtime up', which restarts containerd; the containers keep running",
	}})
}
