package source

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	artifacts "oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/serve/source/signature"
)

// parseArtifact parses the name of a source that is an artifact.
func parseArtifact(name string) (registry.Reference, error) {
	ref, err := registry.ParseReference(strings.TrimPrefix(name, artifactScheme))
	switch {
	case err != nil:
		return ref, errors.New("not the name of an artifact: write oci://host/repository:tag")
	case ref.Reference == "":
		return ref, errors.New("the name of the artifact has no tag and no digest")
	}
	return ref, nil
}

// fetchArtifact reads an artifact, unless its manifest still has the given digest. The errors contain neither URLs,
// which may contain credentials, nor the text of the registry.
func (r *Remotes) fetchArtifact(ctx context.Context, name, digest string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	repository, err := r.client.repository(ctx, name)
	if err != nil {
		return answer{}, err
	}
	desc, err := repository.Resolve(ctx, repository.Reference.Reference)
	if err != nil {
		return answer{}, registryError(err)
	}
	if desc.Digest.String() == digest {
		return r.verifyUnchanged(ctx, name)
	}
	basis := r.options.Verification.basis(ctx, name)
	if err := r.refused(name, desc.Digest.String(), basis); err != nil {
		return answer{}, err
	}
	out, err := r.readArtifact(ctx, name, repository, desc)
	if refusal, ok := errors.AsType[contentError](err); ok {
		r.refuse(name, refusedArtifact{desc.Digest.String(), basis, refusal.error})
		err = refusal.error
	}
	return out, err
}

// readArtifact reads and verifies the content of an artifact. A contentError applies to the digest, whenever podrun reads it.
func (r *Remotes) readArtifact(ctx context.Context, name string, repository *remote.Repository, desc ocispec.Descriptor) (answer, error) {
	files, err := fetchFiles(ctx, repository, desc)
	if err != nil {
		return answer{}, err
	}
	out := answer{data: files.encode(), etag: desc.Digest.String()}
	v := r.options.Verification
	if v == nil {
		return out, nil
	}
	out.signed = files.signed()
	sums, err := v.check(ctx, name, out.signed)
	if err == nil {
		err = v.fresh(name, sums)
	}
	if err == nil {
		err = checkFiles(sums, out.data)
	}
	if err != nil {
		return answer{}, contentError{unverifiedError{err}}
	}
	if err := v.accept(name, sums); err != nil {
		return answer{}, unverifiedError{err}
	}
	return out, nil
}

// contentError is the error of an artifact whose content podrun refuses.
type contentError struct{ error }

func (e contentError) Unwrap() error { return e.error }

// refusedArtifact is an artifact that podrun has refused, so that it does not fetch it again at each poll.
type refusedArtifact struct {
	digest, basis string // Verification.basis
	err           error
}

// refused returns why podrun has refused an artifact; nil if it has not.
func (r *Remotes) refused(name, digest, basis string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.urls[name].refused; last.digest == digest && last.basis == basis {
		return last.err
	}
	return nil
}

func (r *Remotes) refuse(name string, what refusedArtifact) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.urls[name].refused = what
}

// verifyUnchanged verifies the content that podrun has, because the keys may have changed.
func (r *Remotes) verifyUnchanged(ctx context.Context, name string) (answer, error) {
	r.mu.Lock()
	list := r.urls[name].signed
	r.mu.Unlock()
	if v := r.options.Verification; v != nil {
		if _, err := v.check(ctx, name, list); err != nil {
			return answer{}, unverifiedError{err}
		}
	}
	return answer{unchanged: true}, nil
}

// fetchFiles fetches the files of an artifact.
func fetchFiles(ctx context.Context, repository *remote.Repository, desc ocispec.Descriptor) (*artifactFiles, error) {
	if desc.MediaType != ocispec.MediaTypeImageManifest {
		return nil, contentError{fmt.Errorf("not an artifact: its manifest has the type %q", problem.Brief(desc.MediaType))}
	}
	if desc.Size > maxArtifactManifest {
		return nil, contentError{fmt.Errorf("the manifest of the artifact is %w", hostfile.TooLarge(maxArtifactManifest))}
	}
	data, err := artifacts.FetchAll(ctx, repository.Manifests(), desc)
	if err != nil {
		return nil, registryError(err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, contentError{errors.New("the manifest of the artifact is not valid JSON")}
	}
	if err := checkArtifact(m); err != nil {
		return nil, contentError{err}
	}
	return fetchLayers(ctx, repository, m.Layers)
}

// fetchLayers fetches the files in the layers of an artifact.
func fetchLayers(ctx context.Context, repository *remote.Repository, layers []ocispec.Descriptor) (*artifactFiles, error) {
	files := &artifactFiles{}
	for _, l := range layers {
		var failed error // of the registry, which may be another one later
		fetch := func() ([]byte, error) {
			data, err := artifacts.FetchAll(ctx, repository.Blobs(), l)
			failed = registryError(err)
			return data, failed
		}
		if !isArchive(l.MediaType) {
			if err := files.add(l.Annotations[ocispec.AnnotationTitle], fetch); err != nil && failed == nil {
				return nil, contentError{err}
			}
		} else if data, err := fetch(); err == nil {
			if err := files.unpack(data); err != nil {
				return nil, contentError{err}
			}
		}
		if failed != nil {
			return nil, failed
		}
	}
	return files, nil
}

// checkFiles checks that the manifests of an artifact are those of a list. The data is that of artifactFiles.encode.
func checkFiles(sums signature.Sums, data []byte) error {
	files, err := decodeArtifact(data)
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, f := range files {
		found[f.name] = true
		if err := sums.Check(f.name, sha256.Sum256(f.data)); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return missing(sums, found)
}

// registryError returns an error of the client of a registry without URLs and texts of the registry.
func registryError(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		return fmt.Errorf("the registry returned %d %s", e.StatusCode, http.StatusText(e.StatusCode))
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return withoutURL(err)
	}
	return errors.New(problem.Brief(problem.ShownURLs(err.Error())))
}

// repository returns a client of the registry of an artifact, with the credentials of the header file.
func (f *fetcher) repository(ctx context.Context, name string) (*remote.Repository, error) {
	ref, err := parseArtifact(name)
	if err != nil {
		return nil, err
	}
	headers, err := f.headers(ctx)
	if err != nil {
		return nil, err
	}
	credential := auth.EmptyCredential
	var others []header
	for _, h := range headers {
		if !strings.EqualFold(h.name, "Authorization") {
			others = append(others, h)
			continue
		}
		if credential, err = credentialIn(h.value); err != nil {
			return nil, err
		}
	}
	client := *f.client
	client.Transport = registryTransport{base: f.client.Transport, host: ref.Host(), headers: others}
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error { return redirect(next, via, headers) }
	return &remote.Repository{
		Reference: ref, MaxMetadataBytes: maxArtifactManifest,
		Client: &auth.Client{
			Client:     &client,
			Header:     http.Header{"User-Agent": {"podrun"}},
			Credential: auth.StaticCredential(ref.Host(), credential),
		},
	}, nil
}

// credentialIn returns the credential of an Authorization header. The error does not contain it.
func credentialIn(value string) (auth.Credential, error) {
	scheme, text, _ := strings.Cut(value, " ")
	text = strings.TrimSpace(text)
	switch strings.ToLower(scheme) {
	case "bearer":
		return auth.Credential{AccessToken: text}, nil
	case "basic":
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			if user, password, ok := strings.Cut(string(decoded), ":"); ok {
				return auth.Credential{Username: user, Password: password}, nil
			}
		}
	}
	return auth.Credential{}, errors.New("--source-header-file: the Authorization header is neither Basic nor Bearer")
}

// registryTransport sends the headers of the header file to the registry, and to no other host. It refuses http.
type registryTransport struct {
	base    http.RoundTripper
	host    string
	headers []header
}

func (t registryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, errors.New("the registry refers to a URL that is not https")
	}
	if r.URL.Host == t.host && len(t.headers) > 0 {
		r = r.Clone(r.Context())
		for _, h := range t.headers {
			r.Header.Add(h.name, h.value)
		}
	}
	return t.base.RoundTrip(r)
}
