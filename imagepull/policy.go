package imagepull

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/event"
)

// once makes one attempt, with the calls in the kubelet's order. Unless the policy is Always, it
// inspects the image. If the image is missing, or the runtime has lost a part of it, it pulls it. It then inspects the image again to get
// its size, and at last inspects it under its name as written to get its user.
func (p *Puller) once(ctx context.Context, plan Plan, image Image) (Result, bool, error) {
	spec := &runtimeapi.ImageSpec{Image: image.Ref, Annotations: plan.Annotations, RuntimeHandler: plan.RuntimeHandler}
	if image.ID != "" {
		if result, found, err := p.byID(ctx, plan, image); found || err != nil {
			return result, false, err
		}
	}
	var found *runtimeapi.Image
	if image.Policy != corev1.PullAlways {
		var err error
		if found, err = p.inspect(ctx, plan, image, spec); err != nil {
			return Result{}, false, err
		}
		denied := found != nil && p.mustPull(plan, image, found)
		if denied || found != nil && p.isLost(ctx, image) && image.Policy == corev1.PullIfNotPresent {
			found = nil
		}
		if found == nil && image.Policy == corev1.PullNever {
			return Result{}, false, &PullError{Image: image.Name, Reason: ReasonNeverPull, Denied: denied}
		}
	}
	if found != nil {
		result, err := p.user(ctx, plan, image, Result{ImageID: found.Id, Size: found.Size})
		return result, false, err
	}
	result, pulled, err := p.pull(ctx, plan, image, spec)
	if err == nil {
		p.succeed(backOffKey{UID: plan.ID.UID, Ref: image.Ref})
		result, err = p.user(ctx, plan, image, result)
	}
	return result, pulled, err
}

// byID returns the image with image.ID, if the runtime has it. A pod on this host has used it before, so that neither the
// pull policy nor the credentials matter.
func (p *Puller) byID(ctx context.Context, plan Plan, image Image) (Result, bool, error) {
	found, err := p.inspect(ctx, plan, image, &runtimeapi.ImageSpec{Image: image.ID, Annotations: plan.Annotations, RuntimeHandler: plan.RuntimeHandler})
	if found == nil || err != nil {
		return Result{}, false, err
	}
	result := Result{ImageID: found.Id, Size: found.Size}
	result.UID, result.Username = cri.ImageUser(found)
	return result, true, p.approve(ctx, image, found.Id)
}

// imagePresent reports whether an image that is in back-off is now present, for example because the user
// has loaded it. If it is present, imagePresent sets it as the job's result.
func (p *Puller) imagePresent(ctx context.Context, plan Plan, j *job) bool {
	if j.image.Policy == corev1.PullAlways {
		return false
	}
	spec := &runtimeapi.ImageSpec{Image: j.image.Ref, Annotations: plan.Annotations, RuntimeHandler: plan.RuntimeHandler}
	if found, err := p.inspect(ctx, plan, j.image, spec); err != nil || found == nil || p.mustPull(plan, j.image, found) || p.isLost(ctx, j.image) {
		return false
	}
	j.result, j.pulled, j.err = p.once(ctx, plan, j.image)
	return j.err == nil
}

// inspect returns an image, or nil if it is not present.
func (p *Puller) inspect(ctx context.Context, plan Plan, image Image, spec *runtimeapi.ImageSpec) (*runtimeapi.Image, error) {
	found, err := p.client.Images.Status(ctx, spec)
	if err == nil {
		return found, nil
	}
	return nil, p.inspectFailed(ctx, plan, image, err)
}

// inspectFailed returns the error for an image whose presence the runtime does not report, and emits its events.
func (p *Puller) inspectFailed(ctx context.Context, plan Plan, image Image, err error) error {
	if ctx.Err() != nil {
		return endOf(ctx)
	}
	who := image.Containers[0]
	p.emit(plan.ID, who, event.Warning, event.FailedToInspectImage, "Failed to inspect image %q: %s", image.Name, redact(err.Error()))
	p.emit(plan.ID, who, event.Warning, event.FailedToPullImage, "Error: %s", ReasonInspect)
	return &PullError{Image: image.Name, Reason: ReasonInspect, Class: Classify(err), Err: err}
}
