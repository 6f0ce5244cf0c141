package hook

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"

	"github.com/podrun/podrun/internal/podnetns"
)

// maxBody is the number of bytes of a response that podrun reads before it closes the
// connection.
const maxBody = 10 << 10

// maxHeader limits the header of a response, in bytes, like that of a probe.
const maxHeader = 256 << 10

// userAgent is the user agent that the v1.36 kubelet sends for hooks, because a server may distinguish its clients by
// their user agents. It is a constant, because k8s.io/kubernetes contains its version only in binaries whose linker
// flags set the version.
const userAgent = "kube-lifecycle/1.36"

// runHTTP sends the hook's request. Every response is a success, regardless of its status.
// Therefore runHTTP does not use the prober of k8s.io/kubernetes/pkg/probe/http, but a client with
// the configuration of the kubelet's client for hooks (pkg/kubelet/kubelet.go). If a server answers
// an HTTPS request with HTTP, runHTTP repeats the request over HTTP, without the Authorization
// header.
func runHTTP(ctx context.Context, h HTTP, t Target) error {
	req, err := h.request(t.PodIP)
	if err != nil {
		return err
	}
	// Certificates of pods are rarely issued for the pods' IPs, so the kubelet does not verify
	// them. The client uses no proxy and no credentials.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxResponseHeaderBytes: maxHeader,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return podnetns.DialContext(ctx, &net.Dialer{}, network, address)
		}}
	defer transport.CloseIdleConnections()
	const followOtherHosts = false
	client := &http.Client{Transport: transport, CheckRedirect: httpprobe.RedirectChecker(followOtherHosts)}
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

// request builds the hook's request as the kubelet does. The hook's headers replace the defaults,
// an empty Accept header removes the default one, and the header Host sets the virtual host.
func (h HTTP) request(podIP string) (*http.Request, error) {
	if h.Host == "" && podIP == "" {
		return nil, errors.New("the pod has no IP address, because it uses the host's network: set httpGet.host")
	}
	get := &corev1.HTTPGetAction{Scheme: corev1.URIScheme(h.Scheme), Host: h.Host, Port: intstr.FromInt(h.Port), Path: h.Path, HTTPHeaders: h.Headers}
	req, err := httpprobe.NewRequestForHTTPGetAction(get, nil, podIP, "lifecycle")
	if err != nil {
		return nil, err
	}
	own := func(header corev1.HTTPHeader) bool { return http.CanonicalHeaderKey(header.Name) == "User-Agent" }
	if !slices.ContainsFunc(h.Headers, own) {
		req.Header.Set("User-Agent", userAgent)
	}
	return req, nil
}

func send(client *http.Client, req *http.Request) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// The content of the response is ignored. It is not an error if the server closes the
	// connection early.
	_, _ = io.CopyN(io.Discard, resp.Body, maxBody)
	return nil
}
