package imagepull

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// describeAfter is how long a pull must take before podrun requests the image's manifest
// from its registry: registries count such requests, and most pulls end earlier.
const describeAfter = 5 * time.Second

// describeTimeout limits all requests for a manifest together.
const describeTimeout = 10 * time.Second

// Bounds of a registry's answers, in bytes, beside maxManifest.
const (
	maxTokenAnswer    = 64 << 10
	maxRegistryHeader = 64 << 10
)

// errNotDescribed is the error of a registry that does not return a manifest. It does
// not quote the answer, which may contain credentials, and no message contains it.
var errNotDescribed = errors.New("the registry did not return the manifest")

// describe requests the manifest of an image from the registry that its reference
// names, with the credential of the pull, by the proxies of podrun's environment. The
// result is false if that fails in any way, or if the host's registries.conf may make
// the runtime use another registry.
func describe(ctx context.Context, ref string, with *runtimeapi.AuthConfig) (described, bool) {
	named, at, ok := manifestURL(ref)
	if !ok || readRedirects(ctx, registriesConf) {
		return described{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: maxRegistryHeader, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	r := registryClient{at: at, repository: reference.Path(named), login: loginOf(with), client: &http.Client{Transport: transport, CheckRedirect: checkRedirect(at)}}
	image, digest, err := r.manifest(ctx, at)
	if err == nil && digest != "" {
		// It is refused if it is not a digest.
		if _, at, ok = manifestURL(named.Name() + "@" + digest); !ok {
			return described{}, false
		}
		image, digest, err = r.manifest(ctx, at)
	}
	return image, err == nil && digest == ""
}

// checkRedirect follows a few redirects of a registry, as mayFollow allows.
func checkRedirect(registry *url.URL) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		if len(via) > 3 || !mayFollow(registry, next.URL) {
			return errNotDescribed
		}
		next.Header.Del("Referer")
		return nil
	}
}

// registryClient reads the manifests of one image.
type registryClient struct {
	client     *http.Client
	at         *url.URL // a URL of the registry
	repository string
	login      login
	authorize  func(*http.Request) // adds what the registry requires; nil for nothing
}

// manifest reads a manifest, or the digest of the platform's from an index.
func (r *registryClient) manifest(ctx context.Context, at *url.URL) (described, string, error) {
	data, challenges, err := r.get(ctx, at, maxManifest, r.authorize)
	if err == nil && len(challenges) > 0 && r.authorize == nil {
		if r.authorize, err = r.answer(ctx, challenges); err == nil {
			data, challenges, err = r.get(ctx, at, maxManifest, r.authorize)
		}
	}
	if err != nil {
		return described{}, "", err
	}
	image, digest, ok := parseManifest(data, runtime.GOOS, runtime.GOARCH)
	if !ok || len(challenges) > 0 {
		return described{}, "", errNotDescribed
	}
	return image, digest, nil
}

// answer returns how requests are authorized that the registry challenges.
func (r *registryClient) answer(ctx context.Context, challenges []string) (func(*http.Request), error) {
	to := tokenURL(challenges, r.repository)
	if to == nil && r.login.user != "" {
		return r.basic, nil // the registry refuses it if it requires something else
	}
	if to == nil || !mayFollow(r.at, to) {
		return nil, errNotDescribed
	}
	data, refused, err := r.get(ctx, to, maxTokenAnswer, r.basic)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Token  string `json:"token"`
		Access string `json:"access_token"`
	}
	if len(refused) > 0 || json.Unmarshal(data, &answer) != nil || answer.Token+answer.Access == "" {
		return nil, errNotDescribed
	}
	token := answer.Token
	if token == "" {
		token = answer.Access
	}
	return func(q *http.Request) { q.Header.Set("Authorization", "Bearer "+token) }, nil
}

// basic adds the login, if there is one.
func (r *registryClient) basic(q *http.Request) {
	if r.login.user != "" {
		q.SetBasicAuth(r.login.user, r.login.password)
	}
}

// get reads a URL, at most limit bytes, or the challenges of a registry that requires an
// authorization.
func (r *registryClient) get(ctx context.Context, at *url.URL, limit int64, authorize func(*http.Request)) (data []byte, challenges []string, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	q.Header.Set("User-Agent", "podrun")
	q.Header.Set("Accept", strings.Join(mediaTypes, ", "))
	if authorize != nil {
		authorize(q)
	}
	resp, err := r.client.Do(q)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if challenges := resp.Header.Values("Www-Authenticate"); resp.StatusCode == http.StatusUnauthorized && len(challenges) > 0 {
		return nil, challenges, nil
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, errNotDescribed
	}
	data, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if int64(len(data)) > limit {
		return nil, nil, errNotDescribed
	}
	return data, nil, err
}
