package run

import (
	"context"
	"strings"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/internal/problem"
)

// reconfigures reports whether a command restarts the running containerd, because an OCI runtime of this
// host that was installed since would become a handler. Containers keep running, but calls to containerd
// fail for a moment: if there are pods, only `podrun runtime up` restarts it. Other commands then refuse a
// pod that requires the handler, with a hint.
func reconfigures(ctx context.Context, r *Runtime) bool {
	found, err := embedded.ReadNewHandlers(ctx, r.layout)
	if err != nil || len(found) == 0 || !embedded.ReadDaemon(ctx, r.layout).Alive() {
		return false
	}
	if r.Attended {
		return true
	}
	pods, err := r.HasPods(ctx)
	return err == nil && !pods
}

// warnOfHandlers prints a warning about handlers that containerd lacks until it is restarted.
func warnOfHandlers(ctx context.Context, r *Runtime) {
	found, err := embedded.ReadNewHandlers(ctx, r.layout)
	if err != nil || len(found) == 0 {
		return // a pod that requires a handler is refused with its name
	}
	var names []string
	for _, h := range found {
		names = append(names, h.String())
	}
	r.Warn(problem.List{{Warning: true, Object: "embedded runtime", Message: "was started before these OCI runtimes were installed, and cannot use them yet: " + strings.Join(names, ", "),
		Hint: "run 'podrun runtime up', which restarts containerd; the containers keep running"}})
}
