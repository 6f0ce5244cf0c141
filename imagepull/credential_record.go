package imagepull

import (
	"fmt"

	"github.com/podrun/podrun/imagepull/auth"
)

// intend records that podrun is about to pull an image. The returned function removes the
// record.
func (p *Puller) intend(image Image) (func(), error) {
	if p.opt.RecordDir == "" {
		return func() {}, nil
	}
	done, err := records{p.opt.RecordDir}.intend(image.Ref)
	if err != nil {
		return nil, fmt.Errorf("record the pull of image %s: %w", image.Name, err)
	}
	return done, nil
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
