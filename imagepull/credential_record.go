package imagepull

import (
	"context"
	"fmt"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/imagepull/auth"
)

// intend records that podrun is about to pull an image. The caller must call the returned function at the end
// of the pull; recorded reports whether podrun has recorded the credentials.
func (p *Puller) intend(ctx context.Context, plan Plan, image Image, spec *runtimeapi.ImageSpec) (end func(recorded bool), err error) {
	if p.opt.RecordDir == "" {
		return func(bool) {}, nil
	}
	present, err := p.client.Images.List(ctx)
	if err != nil {
		return nil, p.inspectFailed(ctx, plan, image, err)
	}
	before := make([]string, len(present))
	for i := range present {
		before[i] = present[i].Id
	}
	intended, err := records{p.opt.RecordDir}.intend(image.Ref, before)
	if err != nil {
		return nil, fmt.Errorf("record the pull of image %s: %w", image.Name, err)
	}
	return func(recorded bool) { intended.end(recorded || p.unchanged(ctx, spec, intended.before)) }, nil
}

// unchanged reports whether a pull that failed or was canceled has brought no image. A runtime that does not answer
// must not delay the end of a command.
func (p *Puller) unchanged(ctx context.Context, spec *runtimeapi.ImageSpec, before []string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	now, err := p.client.Images.Status(ctx, spec)
	return err == nil && (now == nil || slices.Contains(before, now.Id))
}

// record records the credentials with which an image was pulled.
func (p *Puller) record(image Image, id string, with auth.Credential) error {
	if p.opt.RecordDir == "" || id == "" {
		return nil
	}
	if err := (records{p.opt.RecordDir}).add(image.Ref, id, usedBy(with)); err != nil {
		return fmt.Errorf("record the pull of image %s: %w", image.Name, err)
	}
	return nil
}
