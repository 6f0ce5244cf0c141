package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1"
	providerapi "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// providers runs the kubelet's credential provider plugins (KEP-2133). It is safe for
// concurrent use. It runs only one plugin at a time.
type providers struct {
	dir  string // directory of the plugins
	list []kubeletconfig.CredentialProvider

	mu    sync.Mutex
	cache []cached
}

// find adds the credentials from the plugins whose matchImages match the repository. If a
// plugin fails, find adds a note, because another credential may work.
func (p *providers) find(ctx context.Context, found *Found, repository string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, provider := range p.list {
		if !wants(provider, repository) {
			continue
		}
		if needsToken(provider) {
			found.Notes = append(found.Notes, fmt.Sprintf("credential provider %s requires a service account token, which podrun cannot issue", provider.Name))
			continue
		}
		entries, err := p.ask(ctx, provider, repository)
		if err != nil {
			found.Notes = append(found.Notes, fmt.Sprintf("credential provider %s: %v", provider.Name, err))
			continue
		}
		found.Credentials = append(found.Credentials, matching(entries, repository)...)
	}
}

// ask runs a plugin to get the credentials for a repository. If an earlier response is still valid, ask returns that
// response instead. The caller must hold p.mu.
func (p *providers) ask(ctx context.Context, provider kubeletconfig.CredentialProvider, repository string) ([]entry, error) {
	now := time.Now()
	for _, c := range p.cache {
		if c.valid(provider.Name, repository, now) {
			return c.entries, nil
		}
	}
	request := providerapi.CredentialProviderRequest{
		TypeMeta: metav1.TypeMeta{Kind: "CredentialProviderRequest", APIVersion: provider.APIVersion}, Image: repository,
	}
	in, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	var env []string
	for _, e := range provider.Env {
		env = append(env, e.Name+"="+e.Value)
	}
	out, err := runHelper(ctx, filepath.Join(p.dir, provider.Name), provider.Args, env, in)
	if err != nil {
		return nil, err
	}
	var answer providerapi.CredentialProviderResponse
	if json.Unmarshal(out, &answer) != nil || answer.Kind != "CredentialProviderResponse" || !strings.HasPrefix(answer.APIVersion, providerGroup) {
		return nil, fmt.Errorf("its output is not a CredentialProviderResponse of %sv1", providerGroup)
	}
	kept, err := keep(provider, answer, repository, now)
	if err != nil {
		return nil, err
	}
	p.cache = slices.DeleteFunc(p.cache, func(c cached) bool { return !now.Before(c.until) })
	p.cache = append(p.cache, kept)
	return kept.entries, nil
}
