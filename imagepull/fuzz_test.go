package imagepull

import (
	"net/url"
	"testing"

	"github.com/distribution/reference"
)

// FuzzNormalize: a name that is accepted has a tag or a digest afterwards, means the
// same image, and is normal.
func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{
		"busybox", "busybox:1.36", "registry.example:5000/a/b_c.d-e:T", "localhost/a", "a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		"a:b@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "[::1]:5000/a", "A", "a:", "a//b", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "a:latest", "x/a:latest:latest", "docker.io/library/a",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, image string) {
		ref, err := normalize(image)
		if err != nil {
			return
		}
		before, err := reference.ParseNormalizedNamed(image)
		if err != nil {
			t.Fatal(err)
		}
		after, err := reference.ParseNormalizedNamed(ref)
		if err != nil || reference.IsNameOnly(after) || after.String() != reference.TagNameOnly(before).String() {
			t.Errorf("%q became %q: %v", image, ref, err)
		}
		if again, err := normalize(ref); err != nil || again != ref {
			t.Errorf("%q became %q, and that %q: %v", image, ref, again, err)
		}
	})
}

// FuzzTokenURL: a registry's challenges, which are any text, send podrun nowhere but to a
// host by https, or from loopback to loopback, and only for the repository's token.
func FuzzTokenURL(f *testing.F) {
	for _, seed := range []string{
		`Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull"`, `Basic realm="x"`, `bearer realm=""`, "Bearer", "",
		`Bearer realm="http://127.0.0.1/token"`, `Bearer realm="https://u:p@h/?scope=x&scope=y#f"`, `Bearer realm="//h"`, `Bearer realm="file:///etc/passwd"`, `Bearer realm="https://[::1%25eth0]:1/%zz"`, `Bearer realm="a",realm="https://b"`,
	} {
		f.Add(seed, "a/b")
	}
	https, local := &url.URL{Scheme: "https", Host: "registry.example"}, &url.URL{Scheme: "http", Host: "127.0.0.1:5000"}
	f.Fuzz(func(t *testing.T, challenge, repository string) {
		to := tokenURL([]string{"", challenge}, repository)
		if to == nil {
			return
		}
		if scope := to.Query()["scope"]; len(scope) != 1 || scope[0] != "repository:"+repository+":pull" {
			t.Errorf("%q: the scope is %q", challenge, scope)
		}
		// The request goes to what the printed URL is parsed to.
		sent, err := url.Parse(to.String())
		if err != nil {
			return
		}
		if mayFollow(https, to) && (sent.Scheme != "https" || sent.Hostname() == "") || mayFollow(local, to) && sent.Scheme != "https" && !loopback(sent) {
			t.Errorf("%q: %s may be followed", challenge, sent)
		}
	})
}

// FuzzParseManifest: sizes are never negative, and an index gives no image.
func FuzzParseManifest(f *testing.F) {
	for _, seed := range []string{
		`{"config":{"digest":"sha256:a","size":1},"layers":[{"size":9223372036854775807},{"size":1}]}`, `{"manifests":[{"digest":"sha256:a","platform":{"os":"linux","architecture":"amd64"}}]}`,
		`{"layers":[{"size":-1}]}`, `{"config":{},"layers":[{"size":1e3}]}`, `[]`, `{`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		image, digest, ok := parseManifest(data, "linux", "amd64")
		if image.bytes < 0 || image.layers < 0 || digest != "" && image != (described{}) || !ok && image != (described{}) {
			t.Errorf("%+v %q %t", image, digest, ok)
		}
	})
}
