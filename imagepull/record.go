package imagepull

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/credentialprovider"

	"github.com/podrun/podrun/imagepull/auth"
)

// Verification decides whether a pod must show that it has access to an image that is
// already on this host (KEP-2535: an image that one pod pulled with its Secret is not
// accessible to every pod). The zero value is NeverVerifyPreloadedImages.
type Verification struct {
	Policy    kubelet.ImagePullCredentialsVerificationPolicy
	Allowlist []string // of NeverVerifyAllowlistedImages: names without tag, or prefixes that end in /*
}

// wanted reports whether a pod must have pulled an image, or be able to, before it may
// use it; ours is true if podrun pulled the image. The rules are the kubelet's
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
	return ours // NeverVerifyPreloadedImages
}

func (v Verification) allows(image string) bool {
	name := withoutTag(image)
	return slices.ContainsFunc(v.Allowlist, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return name == pattern || wild && strings.HasPrefix(name, prefix)
	})
}

// withoutTag is an image's name as written, without tag and digest.
func withoutTag(image string) string {
	parsed, err := reference.Parse(image)
	if err != nil {
		return image
	}
	if digested, ok := parsed.(reference.Digested); ok {
		image = strings.TrimSuffix(image, "@"+digested.Digest().String())
	}
	if tagged, ok := parsed.(reference.Tagged); ok {
		image = strings.TrimSuffix(image, ":"+tagged.Tag())
	}
	return image
}

// maxRecorded bounds the Secrets of one name in a record, as the kubelet does.
const maxRecorded = 100

// usedBy is the record of a pull: the Secret whose credentials were used. Credentials of
// this host, and anonymous pulls, are valid for every pod.
func usedBy(c auth.Credential) kubelet.ImagePullCredentials {
	if c.Secret == nil {
		return kubelet.ImagePullCredentials{NodePodsAccessible: true}
	}
	return kubelet.ImagePullCredentials{KubernetesSecrets: []kubelet.ImagePullSecret{{
		UID: string(c.Secret.UID), Namespace: c.Secret.Namespace, Name: c.Secret.Name, CredentialHash: hashOf(c.Auth),
	}}}
}

// hashOf is the kubelet's hash of credentials. It cannot be reversed, but a weak password
// can be guessed from it: only root may read records.
func hashOf(a *runtimeapi.AuthConfig) string {
	data, err := json.Marshal(credentialprovider.AuthConfig{Username: a.GetUsername(), Password: a.GetPassword(), Auth: a.GetAuth(),
		IdentityToken: a.GetIdentityToken(), RegistryToken: a.GetRegistryToken()})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// mayUse reports whether one of the credentials is in a record. The kubelet also accepts
// a Secret's UID, namespace and name, which an API server guarantees; in a file, anyone
// can set them, so podrun requires equal credentials.
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

// merge adds a pull to a record; changed reports whether the record lacked it.
func merge(recorded, pulled kubelet.ImagePullCredentials) (out kubelet.ImagePullCredentials, changed bool) {
	switch {
	case recorded.NodePodsAccessible:
		return recorded, false
	case pulled.NodePodsAccessible:
		return pulled, true
	}
	for _, s := range pulled.KubernetesSecrets {
		known := func(r kubelet.ImagePullSecret) bool { return r.CredentialHash == s.CredentialHash }
		if !slices.ContainsFunc(recorded.KubernetesSecrets, known) {
			recorded.KubernetesSecrets = append(slices.Clone(recorded.KubernetesSecrets), s)
			changed = true
		}
	}
	if over := len(recorded.KubernetesSecrets) - maxRecorded; over > 0 {
		recorded.KubernetesSecrets = recorded.KubernetesSecrets[over:]
	}
	return recorded, changed
}
