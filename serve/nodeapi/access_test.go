package nodeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"testing"

	"github.com/podrun/podrun/test/patience"
)

// TestAuthorize checks that clients with a certificate may do exactly what Backend.Authorize permits,
// including access to containers, and that the server uses the pod names that LocalName returns.
func TestAuthorize(t *testing.T) {
	with := newTLS(t)
	b := testBackend(1)
	var asked []Access
	b.Authorize = func(_ context.Context, a Access) error {
		asked = append(asked, a)
		if a.Subresource == "metrics" {
			return errors.New("not permitted")
		}
		return nil
	}
	b.LocalName = func(_, pod string) string { return pod + "-local" }
	pod := ""
	b.Exec = func(_ context.Context, r StreamRequest) (string, error) {
		pod = r.Pod
		return "", errors.New("no runtime")
	}
	l, err := ListenTLS(t.Context(), "127.0.0.1:0", with.files)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(b)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	defer func() { s.Close(); <-done }()
	client := patience.Client(t, &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: with.roots, Certificates: []tls.Certificate{with.client}}})
	for path, want := range map[string]int{"/metrics": http.StatusForbidden, "/pods": http.StatusOK, "/exec/default/web/uid/app?command=sh&output=1": http.StatusInternalServerError} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Upgrade", "websocket")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
	}
	if len(asked) != 3 || asked[0].User != "client" || asked[0].Verb != "get" {
		t.Errorf("asked %+v", asked)
	}
	if pod != "web-local" {
		t.Errorf("exec in pod %q", pod)
	}
}
