package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// dockerConfig is a docker config in the form that docker login writes, and that a Secret of
// type kubernetes.io/dockerconfigjson contains.
type dockerConfig struct {
	Auths       map[string]dockerAuth `json:"auths"`
	CredHelpers map[string]string     `json:"credHelpers"` // by registry
	CredsStore  string                `json:"credsStore"`
}

// dockerAuth is the entry of one registry.
type dockerAuth struct {
	Username string `json:"username"`
	Password string `json:"password"`
	// base64 of username:password; it takes precedence over the fields below
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// parseConfig parses a docker config. If legacy is true, data has the older format, in which the
// entries are at the top level instead of in "auths". The error does not quote the config.
func parseConfig(data []byte, legacy bool) (dockerConfig, error) {
	var c dockerConfig
	into := any(&c)
	if legacy {
		into = &c.Auths
	}
	if err := json.Unmarshal(data, into); err != nil {
		return dockerConfig{}, errors.New("is not a docker config in JSON")
	}
	for registry, a := range c.Auths {
		if a.Auth == "" {
			continue
		}
		user, password, err := decodeAuth(a.Auth)
		if err != nil {
			return dockerConfig{}, fmt.Errorf("the auth of registry %q %w", hostOnly(registry), err)
		}
		a.Username, a.Password = user, password
		c.Auths[registry] = a
	}
	return c, nil
}

// decodeAuth decodes an auth field. An old version of docker may have written it without
// padding, or with NULs at the end.
func decodeAuth(field string) (user, password string, err error) {
	coding := base64.StdEncoding
	if !strings.HasSuffix(strings.TrimSpace(field), "=") {
		coding = base64.RawStdEncoding
	}
	text, err := coding.DecodeString(strings.TrimSpace(field))
	if err != nil {
		return "", "", errors.New("is not base64")
	}
	user, password, ok := strings.Cut(string(text), ":")
	if !ok {
		return "", "", errors.New("is not username:password in base64")
	}
	return user, strings.Trim(password, "\x00"), nil
}

// entriesOf returns the credentials in a docker config. It skips entries without credentials: such
// an entry means that a credential store has the credentials.
func entriesOf(c dockerConfig, source string) []entry {
	var out []entry
	for _, registry := range slices.Sorted(maps.Keys(c.Auths)) {
		a := c.Auths[registry]
		auth := &runtimeapi.AuthConfig{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
		key, ok := keyOf(registry)
		if !ok || a.Username == "" && a.Password == "" && a.IdentityToken == "" && a.RegistryToken == "" {
			continue
		}
		if a.IdentityToken != "" {
			// docker writes placeholders into these fields if the entry has a token.
			auth.Username, auth.Password = "", ""
		}
		out = append(out, entry{key, Credential{Auth: auth, Source: source}})
	}
	return out
}

// keyOf converts a registry in docker's notation to a key, which has no scheme and no API
// version.
func keyOf(registry string) (string, bool) {
	if !strings.HasPrefix(registry, "https://") && !strings.HasPrefix(registry, "http://") {
		registry = "https://" + registry
	}
	u, err := url.Parse(registry)
	if err != nil {
		return "", false
	}
	path := u.Path
	if strings.HasPrefix(path, "/v2/") || strings.HasPrefix(path, "/v1/") {
		path = path[3:]
	}
	if path == "/" {
		path = ""
	}
	return u.Host + path, true
}
