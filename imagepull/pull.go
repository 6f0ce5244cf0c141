package imagepull

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/imagepull/auth"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
)

// run makes one image available within Options.Timeout.
func (p *Puller) run(ctx context.Context, plan Plan, j *job) {
	if p.opt.Timeout <= 0 {
		p.try(ctx, plan, j)
		return
	}
	bounded, cancel := context.WithTimeout(ctx, p.opt.Timeout)
	defer cancel()
	p.try(bounded, plan, j)
	if j.err == nil || bounded.Err() == nil || ctx.Err() != nil {
		return
	}
	overdue := &PullError{Image: j.image.Name, Reason: ReasonPull, Class: Overdue, Err: fmt.Errorf("not pulled after %s", p.opt.Timeout)}
	if last := j.lastFailure(); last != nil {
		overdue.Reason, overdue.Found = last.Reason, last.Found
		overdue.Err = fmt.Errorf("%w: %s", overdue.Err, redact(Detail(last.Err)))
	}
	j.err = overdue
	p.emit(plan.ID, j.image.Containers[0], event.Warning, event.FailedToPullImage, "Failed to pull image %q: %v", j.image.Name, overdue.Err)
}

// try repeats the pull until the image is present, a permanent error occurs, or ctx ends.
func (p *Puller) try(ctx context.Context, plan Plan, j *job) {
	key, who := backOffKey{UID: plan.ID.UID, Ref: j.image.Ref}, j.image.Containers[0]
	if left := p.left(key); left > 0 && p.imagePresent(ctx, plan, j) {
		return
	} else if left > 0 {
		p.emit(plan.ID, who, event.Normal, event.BackOffPullImage, "%s", backOffMessage(j.image.Name, 0))
		earlier := &PullError{Image: j.image.Name, Reason: ReasonBackOff, Class: Transient,
			Err: fmt.Errorf("a previous pull failed; the next attempt is in %s", left.Round(time.Second))}
		earlier.Present = p.present(ctx, plan, j.image)
		p.setLast(ctx, plan, j, earlier, left)
	}
	for {
		if p.sleep(ctx, p.left(key)) != nil {
			j.err = endOf(ctx)
			return
		}
		j.result, j.pulled, j.err = p.once(ctx, plan, j.image)
		var failed *PullError
		if !errors.As(j.err, &failed) || failed.Reason == ReasonInspect || ctx.Err() != nil {
			return
		}
		failed.Present = p.present(ctx, plan, j.image)
		if failed.Reason == ReasonNeverPull {
			return
		}
		fatal := failed.Class.Fatal() || failed.Class == NoHost && p.opt.Attended
		ends := fatal && (!p.opt.RetryAlways || failed.Class == BadCredentials)
		p.emitFailed(plan.ID, who, ends && len(plan.Images) == 1, fmt.Sprintf("Failed to pull image %q: %s%s", j.image.Name, redact(failed.Err.Error()), failed.tried()))
		p.emitFailed(plan.ID, who, true, "Error: "+failed.Reason)
		if ends {
			return
		}
		next, asked := p.fail(key, j.image, failed)
		p.setLast(ctx, plan, j, failed.backingOff(), next)
		p.emit(plan.ID, who, event.Normal, event.BackOffPullImage, "%s", backOffMessage(j.image.Name, asked))
		p.emitFailed(plan.ID, who, true, "Error: "+ReasonBackOff)
	}
}

// pull pulls an image that is missing, or that the pod may use only if the registry permits it.
// If several pods need the same image at the same time, one of them pulls it for all pods that
// may use it.
func (p *Puller) pull(ctx context.Context, plan Plan, image Image, spec *runtimeapi.ImageSpec) (result Result, pulled bool, err error) {
	waited, came, unlock, err := p.lock(ctx, image.Ref)
	if err != nil {
		return Result{}, false, err
	}
	defer func() { unlock(err == nil) }()
	if always := image.Policy == corev1.PullAlways; waited && (came || !always) {
		found, err := p.inspect(ctx, plan, image, spec)
		if err != nil || found != nil && (always && p.shown(plan, image, found) || !always && !p.mustPull(plan, image, found)) {
			return Result{ImageID: found.GetId(), Size: found.GetSize()}, false, err
		}
	}
	begun := time.Now()
	who := image.Containers[0]
	p.emit(plan.ID, who, event.Normal, event.PullingImage, "Pulling image %q", image.Name)
	release, err := p.turn(ctx)
	if err != nil {
		return Result{}, false, err
	}
	defer release()
	end, err := p.intend(ctx, plan, image, spec)
	if err != nil {
		return Result{}, false, err
	}
	recorded := false
	defer func() { end(recorded) }()
	p.forgetLost(ctx, image)
	pulling := time.Now()
	id, with, failed := p.fetch(ctx, plan, image, spec)
	took := time.Since(pulling)
	if failed != nil {
		if ctx.Err() != nil {
			return Result{}, false, endOf(ctx)
		}
		return Result{}, false, failed
	}
	found, err := p.inspect(ctx, plan, image, spec)
	if err != nil {
		return Result{}, false, err
	}
	if err := p.record(image, found.GetId(), with); err != nil {
		return Result{}, false, err
	}
	recorded = found != nil
	if p.opt.Pulled != nil {
		p.opt.Pulled(found.GetSize(), time.Since(begun))
	}
	p.emit(plan.ID, who, event.Normal, event.PulledImage,
		"Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.",
		image.Name, took.Truncate(time.Millisecond), time.Since(begun).Truncate(time.Millisecond), found.GetSize())
	return Result{ImageID: id, Size: found.GetSize()}, true, nil
}

// fetch calls PullImage with each credential in order, and returns the credential that the registry
// accepted. If all calls fail, it returns the last error that is not a refusal of the credentials.
// If all errors are refusals, it returns the last one.
func (p *Puller) fetch(ctx context.Context, plan Plan, image Image, spec *runtimeapi.ImageSpec) (string, auth.Credential, *PullError) {
	if identity.ReservedImage(spec.Image) {
		// A mirror for all registries could serve another image under this name.
		return "", auth.Credential{}, &PullError{Image: image.Name, Reason: ReasonPull, Class: NotFound, Err: errors.New("the name is reserved for images that podrun itself provides, and no registry has them")}
	}
	var found auth.Found
	if p.opt.Auth != nil {
		var err error
		if found, err = p.opt.Auth(ctx, plan.PullSecrets, spec.Image); err != nil {
			return "", auth.Credential{}, &PullError{Image: image.Name, Reason: ReasonPull, Class: BadCredentials, Err: err}
		}
	}
	candidates := found.Credentials
	if len(candidates) == 0 {
		candidates = []auth.Credential{{}}
	}
	failed := &PullError{Image: image.Name, Found: found}
	for _, c := range candidates {
		watched, end := p.watch.begin(ctx, plan, image)
		id, err := p.client.Images.Pull(watched, spec, c.Auth, plan.Sandbox)
		canceled := end()
		switch {
		case err == nil:
			return id, c, nil
		case ctx.Err() != nil:
			return "", c, failed
		case canceled != nil:
			failed.Reason, failed.Class, failed.Err = ReasonPull, Stalled, canceled
			if _, tooLarge := errors.AsType[excess](canceled); tooLarge {
				failed.Class = TooLarge
			}
			return "", c, failed
		}
		if failed.Err == nil || Classify(err) != Unauthorized || failed.Class == Unauthorized {
			failed.Reason, failed.Class, failed.Err = reasonOf(err), Classify(err), withoutCredentials(err, candidates)
		}
	}
	return "", auth.Credential{}, failed
}

// user reads the image's user, which determines whether the container may run as non-root. An image
// without a user runs as root. Because of CVE-2019-11245, podrun reads the user before every start,
// and not only after a pull.
func (p *Puller) user(ctx context.Context, plan Plan, image Image, result Result) (Result, error) {
	found, err := p.inspect(ctx, plan, image, &runtimeapi.ImageSpec{Image: image.Name})
	if err != nil {
		return Result{}, err
	}
	if found == nil {
		return Result{}, &PullError{Image: image.Name, Reason: ReasonInspect, Class: NotFound, Err: errors.New("the image was removed during the command")}
	}
	result.UID, result.Username = cri.ImageUser(found)
	return result, p.approve(ctx, image, result.ImageID)
}

// approve applies the policy of this host to an image.
func (p *Puller) approve(ctx context.Context, image Image, id string) error {
	if p.opt.Approve == nil {
		return nil
	}
	err := p.opt.Approve(ctx, image, id)
	if err != nil && ctx.Err() != nil {
		return endOf(ctx)
	}
	if err != nil {
		return &PullError{Image: image.Name, Reason: ReasonSignature, Class: Signature, Err: err}
	}
	return nil
}
