package imagepull

import (
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podrun/podrun/imagepull/auth"
)

// mustPull reports whether a pod that uses a present image must still pull it, to verify
// that it may use it. An unreadable record or Secret does not verify this.
func (p *Puller) mustPull(plan Plan, image Image, found *runtimeapi.Image) bool {
	if p.opt.RecordDir == "" {
		return false
	}
	record, ours, err := records{p.opt.RecordDir}.find(image.Ref, found.GetId())
	switch {
	case err != nil:
		return true
	case !p.opt.Verify.wanted(image.Name, ours):
		return false
	}
	return record == nil || !allows(record, plan, image)
}

// shown reports whether a pod that always pulls an image may instead use what another pod
// of this command has just pulled.
func (p *Puller) shown(plan Plan, image Image, found *runtimeapi.Image) bool {
	if p.opt.RecordDir == "" {
		return false
	}
	record, _, err := records{p.opt.RecordDir}.find(image.Ref, found.GetId())
	return err == nil && record != nil && allows(record, plan, image)
}

// allows reports whether a record has that a pod could pull the image.
func allows(record *kubelet.ImagePulledRecord, plan Plan, image Image) bool {
	recorded := record.CredentialMapping[withoutTag(image.Name)]
	if recorded.NodePodsAccessible {
		return true
	}
	have, err := auth.FromSecrets(plan.PullSecrets, image.Ref)
	return err == nil && mayUse(recorded, have)
}

// intend records that an image is about to be pulled, until the returned function is
// called.
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

// record keeps what an image was pulled with.
func (p *Puller) record(image Image, id string, with auth.Credential) error {
	if p.opt.RecordDir == "" || id == "" {
		return nil
	}
	if err := (records{p.opt.RecordDir}).add(image.Ref, id, usedBy(with)); err != nil {
		return fmt.Errorf("record the pull of image %s: %w", image.Name, err)
	}
	return nil
}
