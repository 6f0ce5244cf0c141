package run

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/prepare"
)

// tellSandboxImage warns where the runtime will have to pull its sandbox image
// before the first pod can start: a host without a registry can't.
func (e *Engine) tellSandboxImage(ctx context.Context, targets []prepare.Target) {
	at := slices.IndexFunc(targets, func(t prepare.Target) bool {
		return t.Refused() == nil && (t.Change == prepare.ChangeNew || t.Change == prepare.ChangeReplace)
	})
	if at < 0 {
		return
	}
	runtime := targets[at].Plan.Facts.Runtime
	image := discover.SandboxImage(ctx, e.Client, runtime)
	if image.Present == nil || *image.Present {
		return
	}
	what := "the runtime's sandbox (pause) image"
	if image.Name != "" {
		what += " " + image.Name
	}
	e.warn(problem.List{{Warning: true, Reason: "SandboxImage", Message: what + " is not here: the runtime will pull it before any pod can start",
		Hint: "on a host without a registry load it with 'podrun image load', or name one that is here as " + runtime.SandboxKey()}})
}

// unpulled are the texts of runtimes that could not pull their sandbox image:
// containerd 1.6 to 2.1, and 2.4. A sandbox needs no other image.
var unpulled = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`failed to (?:get sandbox|pull) image "([^"]+)"`)
})

// sandboxImage is the sandbox image that kept a sandbox from being made; empty if
// it was something else.
func sandboxImage(err error) string {
	if m := unpulled().FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return ""
}

func sandboxImageHint(image string, runtime host.Runtime) string {
	return fmt.Sprintf("the runtime's sandbox (pause) image %s is not here and can't be pulled: load it with 'podrun image load', or name one that is here as %s", image, runtime.SandboxKey())
}
