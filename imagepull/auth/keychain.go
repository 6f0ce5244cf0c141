package auth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/hostfile"
)

// Keychain finds the credentials for images. It looks first in the pod's imagePullSecrets, and then
// on this host. The zero value uses only the pod's credentials. A Keychain is safe for concurrent
// use. It reads docker configs at each pull, because they may change, but reads ProviderConfig only
// once.
type Keychain struct {
	AuthFile string   // a docker config that must exist; "" means none
	Files    []string // docker configs that may be missing
	// .dockercfg files, which are read only if none of Files exists
	Legacy []string
	// ProviderConfig is the path of a CredentialProviderConfig. ProviderDir is the directory of the
	// plugins that it names. If they are "", there are no plugins.
	ProviderConfig, ProviderDir string

	mu        sync.Mutex
	providers *providers
	failed    error // error from reading ProviderConfig
}

// HostFiles returns the paths of this host's credentials in the order in which podrun tries them.
// First come the paths to which docker login writes, then those in which the kubelet searches
// (pkg/credentialprovider/config.go). The argument dockerConfig is $DOCKER_CONFIG, and home is
// $HOME. If one of them is "", HostFiles omits the paths below it. The result legacy contains the
// paths of .dockercfg files. The kubelet also searches its working directory. podrun does not,
// because users may run podrun in any directory.
func HostFiles(rootDir, dockerConfig, home string) (files, legacy []string) {
	dirs := []string{rootDir, "/var/lib/kubelet"}
	if dockerConfig != "" {
		files = append(files, filepath.Join(dockerConfig, "config.json"))
	} else if home != "" {
		files = append(files, filepath.Join(home, ".docker", "config.json"))
	}
	for _, dir := range dirs {
		files, legacy = append(files, filepath.Join(dir, "config.json")), append(legacy, filepath.Join(dir, ".dockercfg"))
	}
	if home != "" {
		legacy = append(legacy, filepath.Join(home, ".dockercfg"))
	}
	return append(files, "/.docker/config.json"), append(legacy, "/.dockercfg")
}

// Find returns the credentials to try for an image reference, in order of preference. They come
// from the pod's imagePullSecrets, AuthFile, the credential provider plugins and the host's docker
// configs, in this order. The error concerns the user's input (the reference, a Secret, AuthFile or
// ProviderConfig), or is the error of ctx. If Find fails to read another source, it adds a note.
// Errors never contain credentials.
func (k *Keychain) Find(ctx context.Context, secrets []*corev1.Secret, ref string) (Found, error) {
	repository, err := repositoryOf(ref)
	if err != nil {
		return Found{}, err
	}
	entries, err := secretEntries(secrets)
	if err != nil {
		return Found{}, err
	}
	found := Found{Credentials: matching(entries, repository)}
	if k.AuthFile != "" {
		c, err := readConfig(ctx, k.AuthFile, false)
		if err != nil {
			return Found{}, err
		}
		found.config(ctx, c, k.AuthFile, repository)
	}
	providers, err := k.plugins(ctx)
	if err != nil {
		return Found{}, err
	}
	providers.find(ctx, &found, repository)
	if !k.files(ctx, &found, k.Files, false, repository) {
		k.files(ctx, &found, k.Legacy, true, repository)
	}
	return found, nil
}

// plugins reads the configuration of the plugins. The method reads the file only once, as a kubelet
// does.
func (k *Keychain) plugins(ctx context.Context) (*providers, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.providers != nil || k.failed != nil {
		return k.providers, k.failed
	}
	list := &providers{dir: k.ProviderDir}
	if k.ProviderConfig != "" {
		data, err := hostfile.Read(ctx, k.ProviderConfig, maxCredentials)
		if ctx.Err() != nil {
			// The error is not about the file, so the next call tries again.
			return nil, err
		}
		if err == nil {
			if list.list, err = parseProviders(data); err != nil {
				err = fmt.Errorf("%s: %w", k.ProviderConfig, err)
			}
		}
		if err != nil {
			k.failed = err
			return nil, err
		}
	}
	k.providers = list
	return list, nil
}

// files adds the credentials from docker configs that may not exist. It reports whether any of the
// files exists.
func (k *Keychain) files(ctx context.Context, found *Found, paths []string, legacy bool, repository string) (any bool) {
	for _, path := range paths {
		c, err := readConfig(ctx, path, legacy)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		any = true
		if err != nil {
			found.Notes = append(found.Notes, err.Error())
			continue
		}
		found.config(ctx, c, path, repository)
	}
	return any
}

// config adds the credentials that one docker config has for a repository: first its entries,
// then those of its helpers.
func (f *Found) config(ctx context.Context, c dockerConfig, path, repository string) {
	f.Credentials = append(f.Credentials, matching(entriesOf(c, path), repository)...)
	helper, server := helperFor(c, repository)
	if helper == "" {
		return
	}
	auth, err := askHelper(ctx, helper, server)
	switch {
	case err != nil:
		f.Notes = append(f.Notes, fmt.Sprintf("%s: %v", path, err))
	case auth != nil:
		f.Credentials = append(f.Credentials, Credential{Auth: auth, Source: fmt.Sprintf("docker-credential-%s (%s)", helper, path)})
	}
}

// helperFor returns the credential helper that a docker config names for a repository. It also
// returns the registry's name in the helper's notation.
func helperFor(c dockerConfig, repository string) (helper, server string) {
	server = registryOf(repository)
	if server == "docker.io" {
		server = "https://" + dockerHub + "/v1/"
	}
	for registry, name := range c.CredHelpers {
		if registry == server || hostOnly(registry) == hostOnly(server) {
			return name, server
		}
	}
	return c.CredsStore, server
}

// maxCredentials is the maximum size of a file with credentials in bytes. It is the limit of a
// Secret in the API.
const maxCredentials = 1 << 20

// readConfig reads and parses a docker config.
func readConfig(ctx context.Context, path string, legacy bool) (dockerConfig, error) {
	data, err := hostfile.Read(ctx, path, maxCredentials)
	if err != nil {
		return dockerConfig{}, err
	}
	if strings.TrimSpace(string(data)) == "" {
		return dockerConfig{}, nil
	}
	c, err := parseConfig(data, legacy)
	if err != nil {
		return dockerConfig{}, fmt.Errorf("%s %w", path, err)
	}
	return c, nil
}
