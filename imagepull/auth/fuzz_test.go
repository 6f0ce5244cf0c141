package auth

import (
	"strings"
	"testing"
)

// FuzzParseConfig checks that parseConfig parses or refuses any docker config. Each entry must
// have credentials, and an error must reveal nothing except the name of a registry.
func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{
		`{"auths":{"registry.example":{"auth":"dXNlcjpwYXNz"},"https://index.docker.io/v1/":{"username":"u","password":"p"}}}`,
		`{"registry.example":{"username":"u","password":"p","identitytoken":"t"}}`, `{"auths":{"a":{"auth":"dXNlcjpwYXNzAAA="}},"credHelpers":{"b":"c"},"credsStore":"d"}`,
		`{"auths":{"a":{"auth":"!"}}}`, `{"auths":{"*.example:5000/x":{"registrytoken":"t"}}}`, `{"auths":{"a":{"auth":"bm9jb2xvbg=="}}}`, `{"auths":null}`, `[]`, "",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	// The names of the registries do not contain this text.
	const secret = "c2VjcmV0LXRva2Vu"
	f.Fuzz(func(t *testing.T, data []byte, legacy bool) {
		for _, text := range [][]byte{data, []byte(strings.ReplaceAll(string(data), `"auth":"`, `"auth":"`+secret))} {
			c, err := parseConfig(text, legacy)
			if err != nil {
				for registry := range c.Auths {
					t.Errorf("%q in addition to an error", registry)
				}
				if !strings.Contains(string(data), secret) && strings.Contains(err.Error(), secret) {
					t.Errorf("the error shows the credentials: %v", err)
				}
				continue
			}
			for _, e := range entriesOf(c, "test") {
				if a := e.credential.Auth; a.Username+a.Password+a.IdentityToken+a.RegistryToken == "" {
					t.Errorf("%s has no credentials", e.key)
				}
			}
		}
	})
}
