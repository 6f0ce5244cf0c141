package imagepull

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestManifestURL(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for ref, want := range map[string]string{
		"registry.example/team/app:1":             "https://registry.example/v2/team/app/manifests/1 team/app",
		"registry.example:5000/app@" + digest:     "https://registry.example:5000/v2/app/manifests/" + digest + " app",
		"registry.example/app:1@" + digest:        "https://registry.example/v2/app/manifests/" + digest + " app",
		"registry.example/app":                    "https://registry.example/v2/app/manifests/latest app",
		"docker.io/library/busybox:1":             "https://registry-1.docker.io/v2/library/busybox/manifests/1 library/busybox",
		"127.0.0.1:5000/app:1":                    "http://127.0.0.1:5000/v2/app/manifests/1 app",
		"localhost:5000/app:1":                    "http://localhost:5000/v2/app/manifests/1 app",
		"[::1]:5000/app:1":                        "http://[::1]:5000/v2/app/manifests/1 app",
		"10.0.0.1:5000/app:1":                     "https://10.0.0.1:5000/v2/app/manifests/1 app",
		"localhost.example/app:1":                 "https://localhost.example/v2/app/manifests/1 app",
		"busybox:1":                               "",
		"library/busybox:1":                       "",
		"registry.example/app@sha256:../../token": "",
		"Not A/Name":                              "",
	} {
		named, at, ok := manifestURL(ref)
		got := ""
		if ok {
			got = at.String() + " " + reference.Path(named)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", ref, got, want)
		}
	}
}

func TestMayFollow(t *testing.T) {
	for _, test := range []struct {
		registry, to string
		want         bool
	}{
		{"https://registry.example/v2/", "https://auth.example/token", true},
		{"https://registry.example/v2/", "http://auth.example/token", false},
		{"https://registry.example/v2/", "http://127.0.0.1/token", false},
		{"http://127.0.0.1:5000/v2/", "http://127.0.0.1:5001/token", true},
		{"http://127.0.0.1:5000/v2/", "http://auth.example/token", false},
		{"http://127.0.0.1:5000/v2/", "file:///etc/passwd", false},
		{"https://registry.example/v2/", "", false},
	} {
		registry, _ := url.Parse(test.registry)
		to, _ := url.Parse(test.to)
		if mayFollow(registry, to) != test.want {
			t.Errorf("%s to %s: not %v", test.registry, test.to, test.want)
		}
	}
}

func TestParseManifest(t *testing.T) {
	for text, want := range map[string]struct {
		image  described
		digest string
		ok     bool
	}{
		`{"config":{"size":9},"layers":[{"size":10},{"size":5}]}`:          {described{2, 15}, "", true},
		`{"config":{"size":9},"layers":[]}`:                                {described{}, "", true},
		`{"config":{},"layers":[{"size":-1}]}`:                             {},
		`{"config":{},"layers":[{"size":9223372036854775807},{"size":1}]}`: {},
		`{"manifests":[{"digest":"d","platform":{"os":"linux","architecture":"s390x"}},` +
			`{"digest":"e","platform":{"os":"linux","architecture":"amd64"}}]}`: {described{}, "e", true},
		`{"manifests":[{"digest":"d","platform":{"os":"linux","architecture":"s390x"}}]}`: {},
		`{"schemaVersion":1,"fsLayers":[{"blobSum":"x"}]}`:                                {},
		`<html>`: {},
	} {
		if image, digest, ok := parseManifest([]byte(text), "linux", "amd64"); image != want.image || digest != want.digest || ok != want.ok {
			t.Errorf("%s: %v %q %v, want %v", text, image, digest, ok, want)
		}
	}
}

func TestTokenURL(t *testing.T) {
	for challenge, want := range map[string]string{
		`Bearer realm="https://auth.example/token",service="registry.example",scope="repository:other:push"`: "https://auth.example/token?scope=repository%3Aapp%3Apull&service=registry.example",
		`bearer realm="https://auth.example/token?a=b"`:                                                      "https://auth.example/token?a=b&scope=repository%3Aapp%3Apull",
		`Basic realm="private"`:   "",
		`Bearer realm="http://%"`: "",
		"":                        "",
	} {
		got := ""
		if to := tokenURL([]string{challenge}, "app"); to != nil {
			got = to.String()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", challenge, got, want)
		}
	}
}

func TestLoginOf(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte("puller:pass:word"))
	for name, test := range map[string]struct {
		with *runtimeapi.AuthConfig
		want login
	}{
		"none":         {nil, login{}},
		"a password":   {&runtimeapi.AuthConfig{Username: "puller", Password: "x"}, login{"puller", "x"}},
		"encoded":      {&runtimeapi.AuthConfig{Auth: encoded}, login{"puller", "pass:word"}},
		"not base64":   {&runtimeapi.AuthConfig{Auth: "%"}, login{}},
		"a token only": {&runtimeapi.AuthConfig{IdentityToken: "x"}, login{}},
	} {
		if got := loginOf(test.with); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestRedirects(t *testing.T) {
	for conf, want := range map[string]bool{
		"": false,
		"unqualified-search-registries = [\"docker.io\"]\n[[registry]]\nlocation = \"a\"\ninsecure = true\n# [[registry.mirror]]\n": false,
		"[[registry]]\nlocation = \"a\"\n [[registry.mirror]]\nlocation = \"b\"\n":                                                  true,
		"[[registry]]\nprefix = \"a\"\nlocation = \"b\"\n":                                                                          true,
		"[[registry]]\nlocation = \"a\"\nblocked=true":                                                                              true,
		"registry = [{location = \"a\", mirror = [{location = \"b\"}]}]":                                                            true,
	} {
		if got := redirects(conf); got != want {
			t.Errorf("%q: %v", conf, got)
		}
	}
}
