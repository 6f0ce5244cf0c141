package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletconfig "k8s.io/kubelet/config/v1"
	providerapi "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"sigs.k8s.io/yaml"
)

// providerGroup is the API group of the credential provider protocol.
const providerGroup = "credentialprovider.kubelet.k8s.io/"

// parseProviders parses a CredentialProviderConfig (kubelet.config.k8s.io/v1 and its betas,
// which have the same fields) in YAML or JSON.
func parseProviders(data []byte) ([]kubeletconfig.CredentialProvider, error) {
	var c kubeletconfig.CredentialProviderConfig
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, err
	}
	if c.Kind != "CredentialProviderConfig" || !strings.HasPrefix(c.APIVersion, "kubelet.config.k8s.io/v1") {
		return nil, fmt.Errorf("is %s %s, not a CredentialProviderConfig of kubelet.config.k8s.io/v1", c.APIVersion, c.Kind)
	}
	var errs []error
	for i, p := range c.Providers {
		if err := checkProvider(p); err != nil {
			errs = append(errs, fmt.Errorf("providers[%d] %q: %w", i, p.Name, err))
		}
		if slices.ContainsFunc(c.Providers[:i], func(o kubeletconfig.CredentialProvider) bool { return o.Name == p.Name }) {
			errs = append(errs, fmt.Errorf("providers[%d] %q: defined twice", i, p.Name))
		}
	}
	return c.Providers, errors.Join(errs...)
}

// checkProvider validates one provider as the kubelet does (pkg/credentialprovider/plugin,
// validateCredentialProviderConfig).
func checkProvider(p kubeletconfig.CredentialProvider) error {
	switch {
	case p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/ "):
		return errors.New("the name must be the name of a file in the plugin directory")
	case len(p.MatchImages) == 0:
		return errors.New("matchImages is empty")
	case !slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, strings.TrimPrefix(p.APIVersion, providerGroup)) || !strings.HasPrefix(p.APIVersion, providerGroup):
		return fmt.Errorf("apiVersion %q is not %sv1", p.APIVersion, providerGroup)
	case p.DefaultCacheDuration == nil || p.DefaultCacheDuration.Duration < 0:
		return errors.New("defaultCacheDuration is missing or negative")
	}
	return nil
}

// wants reports whether a repository matches one of a provider's matchImages.
func wants(p kubeletconfig.CredentialProvider, repository string) bool {
	return slices.ContainsFunc(p.MatchImages, func(glob string) bool {
		ok, err := credentialprovider.URLsMatchStr(glob, repository)
		return ok && err == nil
	})
}

// needsToken reports whether a provider requires service account tokens, which only a cluster
// can issue.
func needsToken(p kubeletconfig.CredentialProvider) bool {
	return p.TokenAttributes != nil && p.TokenAttributes.RequireServiceAccount != nil && *p.TokenAttributes.RequireServiceAccount
}

// cached is a cached response of a provider.
type cached struct {
	// key is the repository or registry for which the response is valid, or "" if it is valid for
	// all images.
	provider, key string
	until         time.Time
	entries       []entry
}

// keep returns the cache entry for a response. The response specifies the images for which it is
// valid, and the duration.
func keep(p kubeletconfig.CredentialProvider, answer providerapi.CredentialProviderResponse, repository string, now time.Time) (cached, error) {
	c := cached{provider: p.Name}
	switch answer.CacheKeyType {
	case providerapi.ImagePluginCacheKeyType:
		c.key = repository
	case providerapi.RegistryPluginCacheKeyType:
		c.key = registryOf(repository)
	case providerapi.GlobalPluginCacheKeyType:
	default:
		return cached{}, fmt.Errorf("cacheKeyType %q is not Image, Registry or Global", answer.CacheKeyType)
	}
	life := p.DefaultCacheDuration.Duration
	if answer.CacheDuration != nil {
		life = answer.CacheDuration.Duration
	}
	c.until = now.Add(life)
	for registry, auth := range answer.Auth {
		if key, ok := keyOf(registry); ok {
			c.entries = append(c.entries, entry{key, Credential{
				Auth: &runtimeapi.AuthConfig{Username: auth.Username, Password: auth.Password}, Source: "credential provider " + p.Name}})
		}
	}
	return c, nil
}

// valid reports whether a cached response is still valid for a repository.
func (c cached) valid(provider, repository string, now time.Time) bool {
	return c.provider == provider && now.Before(c.until) &&
		(c.key == "" || c.key == repository || c.key == registryOf(repository))
}
