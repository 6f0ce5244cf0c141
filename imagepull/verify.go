package imagepull

import (
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podrun/podrun/imagepull/auth"
)

// mustPull reports whether a pod must pull an image that is already present, to prove that it may
// use the image. A record or a Secret that cannot be read does not prove access.
func (p *Puller) mustPull(plan Plan, image Image, found *runtimeapi.Image) bool {
	if p.opt.RecordDir == "" {
		return false
	}
	record, ours := records{p.opt.RecordDir}.find(image.Ref, found)
	return p.opt.Verify.wanted(image.Name, ours) && (record == nil || !allows(record, plan, image))
}

// shown reports whether a pod with pull policy Always need not pull the image, because another
// pod of this command has just pulled it and this pod may use it.
func (p *Puller) shown(plan Plan, image Image, found *runtimeapi.Image) bool {
	if p.opt.RecordDir == "" {
		return false
	}
	record, _ := records{p.opt.RecordDir}.read(found.GetId())
	return record != nil && allows(record, plan, image)
}

// allows reports whether a record shows that a pod could pull the image.
func allows(record *kubelet.ImagePulledRecord, plan Plan, image Image) bool {
	recorded := record.CredentialMapping[WithoutTag(image.Name)]
	if recorded.NodePodsAccessible {
		return true
	}
	have, err := auth.FromSecrets(plan.PullSecrets, image.Ref)
	return err == nil && mayUse(recorded, have)
}

// Verification specifies whether a pod must prove that it has access to an image that is already on
// this host. According to KEP-2535, a pod that has pulled an image with its Secret does not thereby
// give every pod access to the image. The zero value is NeverVerifyPreloadedImages.
type Verification struct {
	Policy kubelet.ImagePullCredentialsVerificationPolicy
	// for NeverVerifyAllowlistedImages: names without a tag, or prefixes that end in /*
	Allowlist []string
}

// wanted reports whether a pod must prove that it has access to an image before it may use it. The
// argument ours must be true if podrun pulled the image. The rules are the kubelet's
// (pkg/kubelet/images/pullmanager).
func (v Verification) wanted(image string, ours bool) bool {
	switch v.Policy {
	case kubelet.NeverVerify:
		return false
	case kubelet.NeverVerifyAllowlistedImages:
		return !v.allows(image)
	case kubelet.AlwaysVerify:
		return true
	}
	return ours // the default, NeverVerifyPreloadedImages
}

func (v Verification) allows(image string) bool {
	name := WithoutTag(image)
	return slices.ContainsFunc(v.Allowlist, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return name == pattern || wild && strings.HasPrefix(name, prefix)
	})
}

// mayUse reports whether a record contains one of the credentials. The kubelet also accepts a
// Secret with the same UID, namespace and name, because an API server guarantees that they identify
// the Secret. Users of podrun can write any UID, namespace and name to a file, so podrun requires
// equal credentials.
func mayUse(recorded kubelet.ImagePullCredentials, have []auth.Credential) bool {
	if recorded.NodePodsAccessible {
		return true
	}
	for _, s := range recorded.KubernetesSecrets {
		if s.CredentialHash != "" && slices.ContainsFunc(have, func(c auth.Credential) bool { return hashOf(c.Auth) == s.CredentialHash }) {
			return true
		}
	}
	return false
}
