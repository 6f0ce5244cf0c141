package imagepull

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"net"
	"net/url"
	"strings"

	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// described is the content of an image as its registry's manifest states it; zero if it
// is not known.
type described struct {
	layers int
	bytes  int64 // of the layers, as they are transferred
}

// mediaTypes are those of manifests and of indexes of several platforms
// (github.com/opencontainers/image-spec, media-types.md).
var mediaTypes = []string{
	"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
	"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
}

// manifestURL returns a parsed reference and the URL of its manifest at its own registry.
// The result is false if the reference does not name its registry, so that the runtime's
// configuration determines it, or cannot be parsed. Only a registry on loopback is
// addressed by http.
func manifestURL(ref string) (named reference.Named, at *url.URL, ok bool) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil || !strings.HasPrefix(ref, reference.Domain(named)+"/") {
		return nil, nil, false
	}
	at = &url.URL{Scheme: "https", Host: reference.Domain(named)}
	if at.Host == "docker.io" {
		at.Host = "registry-1.docker.io"
	}
	if loopback(at) {
		at.Scheme = "http"
	}
	version := ""
	switch named := reference.TagNameOnly(named).(type) {
	case reference.Digested:
		version = named.Digest().String()
	case reference.Tagged:
		version = named.Tag()
	}
	return named, at.JoinPath("v2", reference.Path(named), "manifests", version), true
}

// loopback reports whether the host of a URL is this one.
func loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// mayFollow reports whether podrun may send a request to a URL that a registry names:
// by https, or by http from a registry on loopback to loopback.
func mayFollow(registry, to *url.URL) bool {
	return to.Hostname() != "" && (to.Scheme == "https" || to.Scheme == "http" && registry.Scheme == "http" && loopback(to))
}

// parseManifest reads a manifest, or the digest of the platform's manifest from an
// index. The result is false if it is neither, or states impossible sizes.
func parseManifest(data []byte, os, arch string) (image described, digest string, ok bool) {
	var doc struct {
		manifestJSON
		Manifests []struct {
			Digest   string `json:"digest"`
			Platform struct {
				OS   string `json:"os"`
				Arch string `json:"architecture"`
			} `json:"platform"`
		} `json:"manifests"`
	}
	if json.Unmarshal(data, &doc) != nil {
		return described{}, "", false
	}
	for _, m := range doc.Manifests {
		if m.Platform.OS == os && m.Platform.Arch == arch {
			return described{}, m.Digest, m.Digest != ""
		}
	}
	if doc.Config == nil {
		return described{}, "", false
	}
	for _, l := range doc.Layers {
		if l.Size < 0 || l.Size > math.MaxInt64-image.bytes {
			return described{}, "", false
		}
		image.layers, image.bytes = image.layers+1, image.bytes+l.Size
	}
	return image, "", true
}

// challengeParameter is a parameter of a WWW-Authenticate header.
var challengeParameter = expression(`([a-z]+)="([^"]*)"`)

// tokenURL returns where a registry's challenges send for a token to pull from a
// repository (github.com/distribution/distribution, docs/content/spec/auth/token.md);
// nil if they do not.
func tokenURL(challenges []string, repository string) *url.URL {
	for _, challenge := range challenges {
		if !hasScheme(challenge, "Bearer") {
			continue
		}
		given := map[string]string{}
		for _, m := range challengeParameter().FindAllStringSubmatch(challenge, -1) {
			given[m[1]] = m[2]
		}
		to, err := url.Parse(given["realm"])
		if err != nil {
			continue
		}
		query := to.Query()
		query.Set("scope", "repository:"+repository+":pull")
		if given["service"] != "" {
			query.Set("service", given["service"])
		}
		to.RawQuery = query.Encode()
		return to
	}
	return nil
}

// hasScheme reports whether a challenge is of an authentication scheme.
func hasScheme(challenge, scheme string) bool {
	word, _, _ := strings.Cut(challenge, " ")
	return strings.EqualFold(word, scheme)
}

// login is a user's name and password; without a name there is none.
type login struct{ user, password string }

// loginOf returns the login that CRI-O takes from the credential of a pull
// (server/image_pull.go, PullImage).
func loginOf(with *runtimeapi.AuthConfig) login {
	if encoded := with.GetAuth(); encoded != "" {
		plain, err := base64.StdEncoding.DecodeString(encoded)
		user, password, found := strings.Cut(strings.TrimRight(string(plain), "\x00"), ":")
		if err != nil || !found {
			return login{}
		}
		return login{user, password}
	}
	return login{with.GetUsername(), with.GetPassword()}
}

// redirects reports whether a registries.conf may make a runtime pull from other
// registries than those that references name, or from none
// (containers-registries.conf(5)): whether it contains a mirror, a prefix with another
// location or a blocked registry.
func redirects(conf string) bool {
	for line := range strings.Lines(conf) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, word := range []string{"mirror", "prefix", "blocked"} {
			if strings.Contains(line, word) {
				return true
			}
		}
	}
	return false
}
