package imagepull

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/event"
)

const imageManifest = `{"config":{"digest":"c","size":9},"layers":[{"digest":"a","size":40000000},{"digest":"b","size":8000000}]}`

// describeAt describes the image app:1 of a registry on loopback with a credential.
func describeAt(t *testing.T, registry http.Handler, with *runtimeapi.AuthConfig) (described, bool) {
	t.Helper()
	server := httptest.NewServer(registry)
	defer server.Close()
	return describe(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/app:1", with)
}

func TestDescribe(t *testing.T) {
	puller := &runtimeapi.AuthConfig{Username: "puller", Password: "secret"}
	plain := http.NewServeMux()
	plain.HandleFunc("GET /v2/app/manifests/1", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, imageManifest) })
	digest := "sha256:" + strings.Repeat("d", 64)
	index := func(digest string) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v2/app/manifests/1", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"manifests":[{"digest":%q,"platform":{"os":"linux","architecture":%q}}]}`, digest, runtime.GOARCH)
		})
		mux.HandleFunc("GET /v2/app/manifests/{digest}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, imageManifest) })
		return mux
	}
	body := func(code int, text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); fmt.Fprint(w, text) })
	}
	image := described{2, 48000000}
	for name, test := range map[string]struct {
		registry http.Handler
		with     *runtimeapi.AuthConfig
		want     described
	}{
		"anonymous":                  {plain, nil, image},
		"a credential is not needed": {plain, puller, image},
		"an index":                   {index(digest), nil, image},
		"an index of another path":   {index("../../../token"), nil, described{}},
		"a password":                 {byBasic(plain), puller, image},
		"no password":                {byBasic(plain), nil, described{}},
		"another password":           {byBasic(plain), &runtimeapi.AuthConfig{Username: "puller", Password: "no"}, described{}},
		"a token":                    {byBearer(plain, ""), puller, image},
		"a token for an index":       {byBearer(index(digest), ""), puller, image},
		"no token":                   {byBearer(plain, ""), nil, described{}},
		"a token from elsewhere":     {byBearer(plain, "http://auth.example"), puller, described{}},
		"not found":                  {body(http.StatusNotFound, imageManifest), nil, described{}},
		"a web page":                 {body(http.StatusOK, "<html>"), nil, described{}},
		"too large":                  {body(http.StatusOK, imageManifest+strings.Repeat(" ", maxManifest)), nil, described{}},
		"a redirect elsewhere":       {http.RedirectHandler("http://registry.example/", http.StatusFound), nil, described{}},
	} {
		if got, ok := describeAt(t, test.registry, test.with); got != test.want || ok != (test.want != described{}) {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
}

// byBasic requires a password.
func byBasic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "puller" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// byBearer requires a token, for which a password is required at auth, or here.
func byBearer(next http.Handler, auth string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := auth
		if from == "" {
			from = "http://" + r.Host
		}
		user, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/token" && user == "puller" && password == "secret" && r.URL.Query().Get("scope") == "repository:app:pull":
			fmt.Fprint(w, `{"access_token":"t0ken"}`)
		case r.URL.Path == "/token":
			w.WriteHeader(http.StatusForbidden)
		case r.Header.Get("Authorization") == "Bearer t0ken":
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+from+`/token",service="private"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
}

// A registry that does not answer is not waited for when the pull ends.
func TestDescribeCanceled(t *testing.T) {
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { close(asked); <-r.Context().Done() }))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	begun := time.Now()
	if got, ok := describe(ctx, strings.TrimPrefix(server.URL, "http://")+"/app:1", nil); ok || time.Since(begun) >= describeTimeout {
		t.Errorf("%v, %v after %v", got, ok, time.Since(begun))
	}
}

func TestReadRedirects(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "registries.conf")
	check := func(want bool) {
		t.Helper()
		if got := readRedirects(t.Context(), conf); got != want {
			t.Errorf("got %v", got)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check(false)
	write(conf, "[[registry]]\nlocation = \"a\"\n")
	check(false)
	if err := os.Mkdir(conf+".d", 0o700); err != nil {
		t.Fatal(err)
	}
	write(conf+".d/mirror.conf", "[[registry.mirror]]\n")
	check(true)
	write(conf+".d/mirror.conf", strings.Repeat(" ", maxRegistriesFile+1))
	check(true)
}

// A long pull without a runtime's store requests the manifest, once. The end of the pull
// ends the request.
func TestDescribeLong(t *testing.T) {
	for name, test := range map[string]struct {
		took, answer time.Duration
		ok           bool
		asked        int32
		want         []event.Pull // without the image and the time
	}{
		"short":      {4 * time.Second, time.Second, true, 0, []event.Pull{{State: event.Pulling}, {State: event.PullEnded}}},
		"long":       {20 * time.Second, time.Second, true, 1, []event.Pull{{State: event.Pulling}, {State: event.Pulling, Layers: 2, LayerBytes: 48}, {State: event.PullEnded}}},
		"no answer":  {20 * time.Second, time.Second, false, 1, []event.Pull{{State: event.Pulling}, {State: event.PullEnded}}},
		"ends first": {8 * time.Second, time.Hour, true, 1, []event.Pull{{State: event.Pulling}, {State: event.PullEnded}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry()
			r.slow["r.example/app:1"] = test.took
			var got []event.Pull
			p := r.puller(Options{Progress: func(e event.Event) {
				one := *e.Pull
				one.Image, one.Elapsed = "", 0
				if len(got) == 0 || got[len(got)-1] != one {
					got = append(got, one)
				}
			}})
			var asked atomic.Int32
			p.watch.describe = func(ctx context.Context, ref string, _ *runtimeapi.AuthConfig) (described, bool) {
				asked.Add(1)
				select {
				case <-time.After(test.answer):
				case <-ctx.Done():
					return described{}, false
				}
				if !test.ok || ref != "r.example/app:1" {
					return described{}, false
				}
				return described{2, 48}, true
			}
			begun := time.Now()
			pulls := p.Start(t.Context(), planOf(t, "containers:\n"+container("app", "r.example/app:1", "Always")))
			if _, err := pulls.Wait(t.Context(), "app"); err != nil {
				t.Fatal(err)
			}
			pulls.Stop()
			if asked.Load() != test.asked || !slices.Equal(got, test.want) || time.Since(begun) != test.took {
				t.Errorf("%s: asked %d times, %v after %v", name, asked.Load(), got, time.Since(begun))
			}
		})
	}
}
