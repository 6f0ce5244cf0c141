// Package auth finds the credentials for pulling an image. It looks in the pod's
// imagePullSecrets, in docker configs and their credential helpers, and in the kubelet's
// credential provider plugins (KEP-2133). The order and the rules for matching are the
// kubelet's (pkg/credentialprovider).
package auth

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Credential is one way to log in to a registry. The zero value is anonymous access.
type Credential struct {
	Auth *runtimeapi.AuthConfig // sent in PullImage; nil means anonymous access
	// Source names the origin of the credential in messages, such as "Secret shop/registry" or a
	// path. It lets the user find and correct a credential that the registry refuses.
	Source string
	// Secret is the Secret that contains the credential, or nil if the credential comes from this
	// host.
	Secret *corev1.Secret
}

// String returns the source, so that no message contains the credential itself.
func (c Credential) String() string { return c.Source }

// GoString returns the source, so that %#v does not print the credential either.
func (c Credential) GoString() string { return c.Source }

// Found is the result of a search for an image's credentials. If it contains no Credentials,
// podrun pulls the image anonymously.
type Found struct {
	Credentials []Credential // ordered by preference
	// reasons why sources could not be used; they quote no credentials
	Notes []string
}

// entry is a credential with a key that selects registries: host[:port][/path], where each
// label of the host may be a glob.
type entry struct {
	key        string
	credential Credential
}

// dockerHub is the key of Docker Hub, which also applies to docker.io.
const dockerHub = "index.docker.io"

// IsPullSecret reports whether a Secret contains credentials for registries. Its type must be
// kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg, and the value under the type's key
// must not be empty. In imagePullSecrets, the kubelet ignores all other Secrets.
func IsPullSecret(s *corev1.Secret) bool {
	key, _ := pullSecretKey(s)
	return len(s.Data[key]) > 0
}

// pullSecretKey returns the key of the docker config in a Secret of this type; "" for other types.
// legacy reports whether the config has the older format.
func pullSecretKey(s *corev1.Secret) (key string, legacy bool) {
	switch s.Type {
	case corev1.SecretTypeDockerConfigJson:
		return corev1.DockerConfigJsonKey, false
	case corev1.SecretTypeDockercfg:
		return corev1.DockerConfigKey, true
	}
	return "", false
}

// secretEntries returns the credentials in a pod's imagePullSecrets.
func secretEntries(secrets []*corev1.Secret) ([]entry, error) {
	var out []entry
	for _, s := range secrets {
		if !IsPullSecret(s) {
			continue
		}
		key, legacy := pullSecretKey(s)
		source := "Secret " + s.Namespace + "/" + s.Name
		c, err := parseConfig(s.Data[key], legacy)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", source, key, err)
		}
		entries := entriesOf(c, source)
		for i := range entries {
			entries[i].credential.Secret = s
		}
		out = append(out, entries...)
	}
	return out, nil
}

// FromSecrets returns those credentials in a pod's imagePullSecrets that apply to an image
// reference, in order of preference. If no credential applies, it returns nil without an error. The
// error concerns the reference, or a Secret that cannot be parsed. It names the Secret, but does
// not quote it.
func FromSecrets(secrets []*corev1.Secret, ref string) ([]Credential, error) {
	repository, err := repositoryOf(ref)
	if err != nil {
		return nil, err
	}
	entries, err := secretEntries(secrets)
	if err != nil {
		return nil, err
	}
	return matching(entries, repository), nil
}
