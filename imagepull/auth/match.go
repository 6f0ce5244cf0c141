package auth

import (
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/kubernetes/pkg/credentialprovider"
)

// matching picks the entries for a repository, the most specific first, as the
// kubelet's keyring does (pkg/credentialprovider).
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

// hostOnly is the host of a registry's name, which may carry anything else.
func hostOnly(registry string) string {
	key, _ := keyOf(registry)
	host, _, _ := strings.Cut(key, "/")
	return host
}

// repositoryOf is a reference's full name without tag and digest:
// docker.io/library/busybox.
func repositoryOf(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", err
	}
	return named.Name(), nil
}

// registryOf is the host[:port] of a full name.
func registryOf(repository string) string {
	registry, _, _ := strings.Cut(repository, "/")
	return registry
}
