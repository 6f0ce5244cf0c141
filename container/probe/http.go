package probe

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	kubeprobe "k8s.io/kubernetes/pkg/probe"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"

	"github.com/podrun/podrun/internal/podnetns"
)

// runHTTP sends a GET request with the kubelet's client. A status of 200 to 399 is a success. The
// client follows redirects on the same host; a redirect to another host is a Warning. It does not
// verify certificates, uses no proxy, and reads at most 10 KiB of the response. A truncated body is
// an error.
func runHTTP(ctx context.Context, h HTTP, podIP string, timeout time.Duration) (Result, error) {
	if _, err := addressOf(h.Host, podIP, h.Port); err != nil {
		return Result{Outcome: Unknown}, err
	}
	get := &corev1.HTTPGetAction{Scheme: corev1.URIScheme(h.Scheme), Host: h.Host, Port: intstr.FromInt(h.Port), Path: h.Path, HTTPHeaders: h.Headers}
	req, err := httpprobe.NewRequestForHTTPGetAction(get, nil, podIP, "probe")
	if err != nil {
		return Result{Outcome: Unknown}, err
	}
	const followOtherHosts = false
	client := &http.Client{Timeout: timeout, Transport: transport(), CheckRedirect: httpprobe.RedirectChecker(followOtherHosts)}
	outcome, output, err := httpprobe.DoHTTPProbe(req.WithContext(ctx), client)
	return Result{Outcome(outcome), output}, err
}

// maxHeader limits the header of a response, in bytes. net/http's default, which the kubelet uses, is 10 MiB for each
// response.
const maxHeader = 256 << 10

// transport returns the connections of all HTTP probes. It is the transport of the kubelet's prober, without TCP
// keep-alive, whose four system calls have no effect on a connection that ends with the response. The transport
// does not reuse connections.
var transport = sync.OnceValue(func() *http.Transport {
	dialer := kubeprobe.ProbeDialer()
	dialer.KeepAlive = -1
	return utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives:  true,
		Proxy:              http.ProxyURL(nil),
		DisableCompression: true,

		MaxResponseHeaderBytes: maxHeader,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return podnetns.DialContext(ctx, dialer, network, address)
		},
	})
})
