package auth

import (
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/kubernetes/pkg/credentialprovider"
)

// matching returns the credentials that apply to a repository, the most specific ones first, as
// in the kubelet's keyring (pkg/credentialprovider).
func matching(entries []entry, repository string) []Credential {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b entry) int { return strings.Compare(b.key, a.key) })
	var found, hub []Credential
	for _, e := range entries {
		if ok, err := credentialprovider.URLsMatchStr(e.key, repository); ok && err == nil {
			found = append(found, e.credential)
		}
		if e.key == dockerHub {
			hub = append(hub, e.credential)
		}
	}
	if len(found) == 0 && registryOf(repository) == "docker.io" {
		return hub
	}
	return found
}

// hostOnly returns only the host of a registry's name.
func hostOnly(registry string) string {
	key, _ := keyOf(registry)
	host, _, _ := strings.Cut(key, "/")
	return host
}

// repositoryOf returns the full name of a reference, without tag and digest:
// docker.io/library/busybox.
func repositoryOf(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", err
	}
	return named.Name(), nil
}

// registryOf returns the host[:port] of a full name.
func registryOf(repository string) string {
	registry, _, _ := strings.Cut(repository, "/")
	return registry
}
