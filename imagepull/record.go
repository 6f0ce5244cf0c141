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

// WithoutTag removes the tag and the digest from the name of an image as written in the pod.
func WithoutTag(image string) string {
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

// maxRecorded is the maximum number of Secrets that a record contains for each name, as in the
// kubelet.
const maxRecorded = 100

// usedBy returns the record of a pull, which names the Secret with the credentials. A pull with
// credentials of this host, or without credentials, permits all pods to use the image.
func usedBy(c auth.Credential) kubelet.ImagePullCredentials {
	if c.Secret == nil {
		return kubelet.ImagePullCredentials{NodePodsAccessible: true}
	}
	return kubelet.ImagePullCredentials{KubernetesSecrets: []kubelet.ImagePullSecret{{
		UID: string(c.Secret.UID), Namespace: c.Secret.Namespace, Name: c.Secret.Name, CredentialHash: hashOf(c.Auth),
	}}}
}

// hashOf returns the kubelet's hash of credentials. The credentials cannot be computed from the
// hash, but a weak password can be guessed and then verified with it. Therefore, only root may read
// the records.
func hashOf(a *runtimeapi.AuthConfig) string {
	data, err := json.Marshal(credentialprovider.AuthConfig{Username: a.GetUsername(), Password: a.GetPassword(), Auth: a.GetAuth(),
		IdentityToken: a.GetIdentityToken(), RegistryToken: a.GetRegistryToken()})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// merge adds a pull to a record, and reports whether the record has changed.
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
