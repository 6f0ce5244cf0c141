package imagepull

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/podrun/podrun/internal/problem"
)

// setLast records the failure that caused a job's back-off. It reports whether this was the job's
// first failure.
func (p *Puller) setLast(ctx context.Context, plan Plan, j *job, failed *PullError, next time.Duration) {
	if j.lastFailure() == nil {
		p.warnRetrying(ctx, plan, j.image, failed, next)
	}
	failed.Next = time.Now().Add(next)
	j.setLast(failed)
}

// warnRetrying reports, once for each image, that its pull has failed and that podrun retries it. The warning
// contains the time limit of the retries, and an alternative for the user. Without this warning, a command would
// print nothing new for minutes.
func (p *Puller) warnRetrying(ctx context.Context, plan Plan, image Image, failed *PullError, next time.Duration) {
	if p.opt.Warn == nil {
		return
	}
	object := "pod " + plan.ID.String() + ": container " + image.Containers[0].Name
	if plan.ID.UID == "" {
		object = ""
	}
	limit := "without a time limit"
	if deadline, ok := ctx.Deadline(); ok {
		limit = "for " + time.Until(deadline).Round(time.Second).String()
	}
	p.opt.Warn(problem.List{{Warning: true, Object: object, Message: fmt.Sprintf("image %q: %s; podrun retries %s, next in %s",
		image.Name, brief{failed}.Error(), limit, next.Round(time.Second)),
		Hint: cmp.Or(failed.presentHint(), "run 'podrun image load FILE' to load the image from an archive of docker save or podman save; set --pull-timeout to limit the retries")}})
}
