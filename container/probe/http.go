package probe

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"
)

// runHTTP sends a GET request with the kubelet's client. A status of 200 to 399 is a success.
// The client follows redirects on the same host; a redirect to another host is a Warning. It
// does not verify certificates, uses no proxy, and reads at most 10 KiB of the response. If the
// body is truncated, that is an error.
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
	outcome, output, err := httpprobe.New(followOtherHosts).Probe(req.WithContext(ctx), timeout)
	return Result{Outcome(outcome), output}, err
}
