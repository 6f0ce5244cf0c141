package script

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/podrun/podrun/cri/critest"
)

// registryUser is the user of the private registries in scripts.
const registryUser, registryPassword, registryToken = "puller", "pa55w0rd-of-puller", "t0ken-of-puller"

// privateRegistries starts two proxies for the test registry. The proxies require credentials:
// $BASIC requires a password, and $TOKEN requires a token, which in turn requires a password. The
// fake runtime does not use a registry, but has images that require the password.
func (h *harness) privateRegistries(env *testscript.Env, s *script, vars map[string]string) error {
	vars["REGISTRY_USER"], vars["REGISTRY_PASSWORD"] = registryUser, registryPassword
	vars["ENCODED_AUTH"] = base64.StdEncoding.EncodeToString([]byte(registryUser + ":" + registryPassword))
	for name, guard := range map[string]func(http.Handler) http.Handler{"BASIC": byPassword, "TOKEN": byToken} {
		address, err := serveHTTP(env, guard(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: h.registry})))
		if err != nil {
			return err
		}
		vars[name] = address
		if s.fake != nil {
			for _, tag := range []string{"private", "credentials", "listed"} {
				s.fake.AddRemote(critest.Image{Name: address + "/busybox:" + tag, Cmd: []string{"sh"}, Username: registryUser, Password: registryPassword})
			}
		}
	}
	return nil
}

// serveHTTP serves a handler on loopback until the script ends.
func serveHTTP(env *testscript.Env, handler http.Handler) (address string, err error) {
	var l net.Listener
	for tries := 0; l == nil; tries++ {
		// hack/crio configures CRI-O for these ports.
		port, err := freePort()
		if err != nil {
			return "", err
		}
		// Another process may have taken the port since.
		if l, err = net.Listen("tcp", "127.0.0.1:"+port); err != nil && tries == 10 {
			return "", err
		}
	}
	srv := &http.Server{Handler: handler}
	go srv.Serve(l)
	env.Defer(func() { srv.Close() })
	return l.Addr().String(), nil
}

// byPassword accepts requests with the password.
func byPassword(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != registryUser || password != registryPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// byToken accepts requests with a token, and issues tokens at /token.
func byToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			user, password, _ := r.BasicAuth()
			if r.Method == http.MethodPost {
				user, password = r.FormValue("username"), r.FormValue("password")
			}
			if user != registryUser || password != registryPassword {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			fmt.Fprintf(w, `{"token":%q,"access_token":%q}`, registryToken, registryToken)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+registryToken {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="private",scope="repository:busybox:pull"`, r.Host))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// saveImage IMAGE NAME FILE writes an image from a registry to a docker-archive. The copy has
// another name and a changed config, so it is a different image.
func saveImage(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "saveimage IMAGE NAME FILE")
	from, err := name.ParseReference(args[0], name.Insecure)
	ts.Check(err)
	as, err := name.NewTag(args[1])
	ts.Check(err)
	image, err := remote.Image(from)
	ts.Check(err)
	image, err = mutate.Config(image, v1.Config{Labels: map[string]string{"script": of(ts).work}, Cmd: []string{"sh"}})
	ts.Check(err)
	ts.Check(tarball.WriteToFile(ts.MkAbs(args[2]), as, image))
}

// saveOCI IMAGE NAME DIR [PLATFORM] writes an image from a registry to an OCI layout with another
// name. The layout's index lists platforms that the layout does not contain. If PLATFORM is given,
// the layout states that the image is for this platform.
func saveOCI(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: saveoci IMAGE NAME DIR [PLATFORM]")
	}
	from, err := name.ParseReference(args[0], name.Insecure)
	ts.Check(err)
	image, err := remote.Image(from)
	ts.Check(err)
	image, err = mutate.Config(image, v1.Config{Labels: map[string]string{"oci": of(ts).work}, Cmd: []string{"sh"}})
	ts.Check(err)
	is, err := v1.ParsePlatform("linux/" + runtime.GOARCH)
	ts.Check(err)
	if len(args) == 4 {
		is, err = v1.ParsePlatform(args[3])
		ts.Check(err)
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: is}})
	dir, err := layout.Write(ts.MkAbs(args[2]), empty.Index)
	ts.Check(err)
	// The layout does not contain this image, which is for another machine.
	other, err := random.Image(10, 1)
	ts.Check(err)
	more := mutate.AppendManifests(index, mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}})
	raw, err := more.RawManifest()
	ts.Check(err)
	ts.Check(dir.WriteImage(image))
	sum, size, err := v1.SHA256(bytes.NewReader(raw))
	ts.Check(err)
	ts.Check(dir.WriteBlob(sum, io.NopCloser(bytes.NewReader(raw))))
	ts.Check(dir.AppendDescriptor(v1.Descriptor{MediaType: types.OCIImageIndex, Size: size, Digest: sum,
		Annotations: map[string]string{"org.opencontainers.image.ref.name": args[1]}}))
}
