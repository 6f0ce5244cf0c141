package hook

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
)

// maxBody is how much of an answer is read before the connection is closed.
const maxBody = 10 << 10

// runHTTP sends the hook's request. Any answer is a success, whatever its
// status. A server that speaks HTTP where HTTPS was asked for is asked again
// over HTTP, without its Authorization.
func runHTTP(ctx context.Context, h HTTP, t Target) error {
	req, err := h.request(t.PodIP)
	if err != nil {
		return err
	}
	// Certificates of pods are rarely signed for their IP: the kubelet doesn't
	// verify them. No proxy, no credentials.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: sameHost}
	err = send(client, req.WithContext(ctx))
	if err == nil || !strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return err
	}
	plain := req.Clone(ctx)
	plain.URL.Scheme = "http"
	plain.Header.Del("Authorization")
	if send(client, plain) != nil {
		return err
	}
	return nil
}

func send(client *http.Client, req *http.Request) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// What the answer says doesn't count; a server that ends early is not an error.
	_, _ = io.CopyN(io.Discard, resp.Body, maxBody)
	return nil
}

// sameHost follows up to 10 redirects on the host that was asked and takes a
// redirect to another as the answer.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}
