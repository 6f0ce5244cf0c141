package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/test/ring"
)

// failingRegistry starts a registry that fails in the way that the name of the repository
// specifies.
func failingRegistry(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	bearer := func(w http.ResponseWriter, service string) {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="%s",scope="repository:x:pull"`, address, service))
		w.WriteHeader(http.StatusUnauthorized)
	}
	codes := map[string]int{"forbidden": 403, "many": 429, "err500": 500, "err502": 502, "err503": 503, "err504": 504, "gone": 410}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/v2/"), "/", 2)[0]
		switch {
		case r.URL.Path == "/token":
			switch r.URL.Query().Get("service") + r.FormValue("service") {
			case "hubhub", "hub":
				fmt.Fprint(w, `{"token":"t","access_token":"t"}`)
			case "ghcrghcr", "ghcr":
				w.WriteHeader(http.StatusForbidden)
			default:
				w.WriteHeader(http.StatusUnauthorized)
			}
		case kind == "basic":
			w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
			w.WriteHeader(http.StatusUnauthorized)
		case kind == "hub" && r.Header.Get("Authorization") == "Bearer t":
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="hub",scope="repository:x:pull",error="insufficient_scope"`, address))
			w.WriteHeader(http.StatusUnauthorized)
		case kind == "hub" || kind == "tokendenied" || kind == "ghcr":
			bearer(w, kind)
		case kind == "html":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>not a registry</html>")
		case kind == "reset":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.(*net.TCPConn).SetLinger(0)
				conn.Close()
			}
		case codes[kind] != 0:
			w.WriteHeader(codes[kind])
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return address
}

// TestAnswersOfTheRuntime checks that podrun classifies the error of a pull as permanent if the
// pull cannot succeed. With -v, the test prints the errors as rows for
// imagepull/testdata/pull-errors.tsv.
func TestAnswersOfTheRuntime(t *testing.T) {
	ring.Require(t, 2)
	newRig(t)
	client, err := cri.Dial(os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	version, err := client.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	real, failing := os.Getenv("PODRUN_TEST_REGISTRY"), failingRegistry(t)
	login := &runtimeapi.AuthConfig{Username: "u", Password: "p"}
	for _, test := range []struct {
		what, image string
		auth        *runtimeapi.AuthConfig
		want        imagepull.Class
	}{
		{"no such tag", real + "/busybox:nope", nil, imagepull.NotFound},
		{"no such repository", real + "/nope:1", nil, imagepull.NotFound},
		{"no such digest", real + "/busybox@sha256:" + strings.Repeat("a", 64), nil, imagepull.NotFound},
		{"other architecture", real + "/busybox:otherarch", nil, imagepull.NoPlatform},
		{"port closed", "127.0.0.1:1/x:1", nil, imagepull.Unavailable},
		{"no such host", "no-such-host.invalid/x:1", nil, imagepull.NoHost},
		{"connection reset", failing + "/reset/x:1", nil, imagepull.Unavailable},
		{"a blank in the name", "a b", nil, imagepull.InvalidName},
		{"empty name", "", nil, imagepull.InvalidName},
		{"no credentials, basic", failing + "/basic/x:1", nil, imagepull.Unauthorized},
		{"wrong credentials, basic", failing + "/basic/x:1", login, imagepull.Unauthorized},
		{"token without the scope", failing + "/hub/x:1", nil, imagepull.Unauthorized},
		{"token refused, credentials", failing + "/tokendenied/x:1", login, imagepull.Unauthorized},
		{"token refused, anonymous", failing + "/tokendenied/x:1", nil, imagepull.Unauthorized},
		{"token forbidden", failing + "/ghcr/x:1", nil, imagepull.Unauthorized},
		{"forbidden", failing + "/forbidden/x:1", nil, imagepull.Unauthorized},
		{"rate limit", failing + "/many/x:1", nil, imagepull.Transient},
		{"500", failing + "/err500/x:1", nil, imagepull.Unavailable},
		{"502", failing + "/err502/x:1", nil, imagepull.Unavailable},
		{"503", failing + "/err503/x:1", nil, imagepull.Unavailable},
		{"504", failing + "/err504/x:1", nil, imagepull.Unavailable},
		{"410", failing + "/gone/x:1", nil, imagepull.Transient},
		{"a web page instead of a registry", failing + "/html/x:1", nil, imagepull.NotRegistry},
	} {
		_, err := client.Images.Pull(t.Context(), &runtimeapi.ImageSpec{Image: test.image}, test.auth, nil)
		if err == nil {
			t.Errorf("%s: the image was pulled", test.what)
			continue
		}
		t.Logf("%s %s\t%s\t%s\t%s\t%s", version.RuntimeName, version.RuntimeVersion, test.what, status.Code(err), test.want, status.Convert(err).Message())
		if got := imagepull.Classify(err); got != test.want {
			t.Errorf("%s: %s, want %s: %v", test.what, got, test.want, err)
		}
	}
}
